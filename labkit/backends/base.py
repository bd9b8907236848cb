"""What the notebook kernel, the judge and the doctor must know of a backend; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..devices import Gpu
from ..errors import NotEnoughDevices
from ..registry import Registry, unknown


class Backend:
    """One backend. The defaults describe a backend on the CPU whose calls have completed when they return.

    A subclass sets `name` and what differs, and registers one object: `BACKENDS.add("gloo", Gloo())`.
    """

    name = ""
    torch_names: tuple[str, ...] = ()  # other names under which torch builds it
    preference = 0  # backend="auto" takes the highest of those that suit the machine
    needs_gpu = False
    interface_variable = ""  # names the network interfaces to use, "" if it takes none
    returns_at_once = False  # a call returns when it is enqueued, so a hang shows later and several calls can be open
    uneven_lists = False  # all_gather and reduce_scatter of lists take tensors of different sizes
    aborts_on_long_message = False  # ends the process that is sent more than its buffer holds
    drain_before_release = False  # messages must have stopped before a wait is ended, or the rank can be lost
    release_wait_s: float | None = None  # how long a released rank may take to come free; None: recovery's own limit
    log_pattern = ""  # its log files in the world's folder log/, "" if it writes none; {rank} and {pid} are filled in

    @property
    def device(self) -> str:
        """Where a rank's tensors are: each rank's process sees one GPU."""
        return "cuda:0" if self.needs_gpu else "cpu"

    def suits(self, num_ranks: int, gpus: Sequence[Gpu], share_gpu: bool) -> bool:
        """Whether backend="auto" may take it for so many ranks on these GPUs."""
        return False

    def check(self, num_ranks: int, gpus: Sequence[Gpu], share_gpu: bool) -> None:
        """Raise NotEnoughDevices (or StartError) if so many ranks can't use it here."""
        if not self.needs_gpu:
            return
        if not gpus:
            hint = 'use backend="gloo", or see `labkit doctor`'
            raise NotEnoughDevices(f"{self.name} needs a GPU and none is visible", hint=hint, ranks=num_ranks, devices=0)
        if num_ranks > len(gpus) and not share_gpu:
            raise NotEnoughDevices(
                f"{num_ranks} ranks on {len(gpus)} GPU{'s' if len(gpus) > 1 else ''} with {self.name}",
                hint=f'give ranks={len(gpus)}, or backend="gloo", or share_gpu=True for several ranks on one GPU',
                ranks=num_ranks,
                devices=len(gpus),
            )

    def environment(self, rank: int, num_ranks: int, gpus: Sequence[Gpu], user: Mapping[str, str]) -> dict[str, str]:
        """The variables of one rank's process; `user` is the environment that it inherits.

        Ranks of one machine stay on loopback, also on a machine without a network, unless the user has named an interface.
        """
        env = one_gpu(gpus[rank % len(gpus)], user) if self.needs_gpu else {}
        if self.interface_variable and self.interface_variable not in user:
            env[self.interface_variable] = "lo"
        return env

    def host_environment(self, host: int) -> dict[str, str]:
        """The variables of a rank on a host of its own, whose link is eth0."""
        return {self.interface_variable: "eth0"} if self.interface_variable else {}


BACKENDS: Registry[Backend] = Registry("backend", "labkit.backends")


def backend_names() -> tuple[str, ...]:
    """What `backend=` and LABKIT_BACKEND may say.

    >>> {"auto", "gloo", "nccl"} <= set(backend_names())
    True
    """
    return ("auto", *BACKENDS)


def find(name: str) -> Backend:
    """The backend of a name, labkit's or torch's; the defaults for a name that nobody knows, as a foreign record may have.

    >>> find("nccl-legacy").name, find("mpi").returns_at_once
    ('nccl', False)
    """
    found = next((each for each in BACKENDS.values() if name in (each.name, *each.torch_names)), None)
    if found is None:
        found = Backend()
        found.name = name
    return found


def choose(name: str, num_ranks: int, gpus: Sequence[Gpu], share_gpu: bool) -> Backend:
    """The backend asked for, or with "auto" the best that suits; NotEnoughDevices or StartError if it can't be.

    >>> choose("auto", 4, [], False).name
    'gloo'
    """
    if name == "auto":
        suitable = [each for each in BACKENDS.values() if each.suits(num_ranks, gpus, share_gpu)]
        chosen = max(suitable, key=lambda each: each.preference)
    elif name in BACKENDS:
        chosen = BACKENDS[name]
    else:
        raise unknown("backend", name, backend_names())
    chosen.check(num_ranks, gpus, share_gpu)
    return chosen


def one_gpu(gpu: Gpu, user: Mapping[str, str]) -> dict[str, str]:
    """The variables that leave a process one GPU.

    CUDA numbers devices fastest first, nvidia-smi by bus; the order is set where the numbers are ours. A number that the
    user wrote into CUDA_VISIBLE_DEVICES means what it meant to the user.

    >>> one_gpu(Gpu("1", "H200", 0), {})
    {'CUDA_VISIBLE_DEVICES': '1', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
    >>> one_gpu(Gpu("1", "H200", 0), {"CUDA_VISIBLE_DEVICES": "1,0"})
    {'CUDA_VISIBLE_DEVICES': '1'}
    """
    env = {"CUDA_VISIBLE_DEVICES": gpu.visible}
    if gpu.visible.isdigit() and not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & user.keys():
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return env
