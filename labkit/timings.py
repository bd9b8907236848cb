"""The times that several parts must agree on, in seconds, and what each is for. Deadlines that a caller gives are not here."""

from __future__ import annotations

# ---- judging: how long a silence is before it means something
STALL_S = 0.3  # no rank has moved for so long: the world is looked at; a rank that is missing for less may be on its way
MOVED_S = 1.0  # no call for so long is told of a cell that is not over
LATE_S = 0.5  # a rank that came so much later than the others is a straggler,
LATE_TIMES = 4.0  # if it was also so many times as late as the second last

# ---- watching a cell
POLL_S = 0.015  # between two looks at the beacons; a look reads 60 bytes a rank
ARRIVAL_S = 0.045  # for the other ranks to come where two already contradict each other: then it is clear who is wrong
GLANCE_REST = 10.0  # so many times as long as a glance at the newest calls took, none is taken: many ranks share few cores
REACH_EVERY_S = 0.25  # between two looks at the controller, without which no answer comes
LOOK_EVERY_S = 0.4  # between two judgements of a stall that may still end
ANSWER_S = 0.25  # for the answer of a rank's control thread; a rank that holds the interpreter lock gives none
DUMP_S = 0.15  # for a stack that a signal writes, before py-spy is asked
REFUSE_S = 0.25  # for ranks that safe mode tells to stop waiting
REFUSE_MOST_S = 3.0  # for all that they do then: code that goes on after an error may wait again
GOES_ON_S = 0.15  # for the others to come to a call that a rank makes after it was told

# ---- recovery: telling a rank that is slow to answer from one that can't
PROBE_S = 0.15  # for an answer, on a machine with a core for each rank
PROBE_AT_WORK_S = 0.5  # the same, where ranks may be at work and wait for a core
PROBE_TIMES = 6.0  # a mute rank takes so many times longer than the slowest that answered,
PROBE_MOST_S = 1.5  # and no more than this is waited for it
RELEASE_WAIT_S = 0.5  # for a rank's main thread to come free after its waits were cut
RELEASE_TIMES = 12.0  # or so many times the slowest answer, on a busy machine
CUT_S = 0.3  # at least so long
MOVING_S = 0.15  # a rank that has made a call within this time is at work
SETTLE_MOST_S = 1.0  # for ranks at work to come to rest before a connection is cut
SETTLE_POLL_S = 0.02
VARIABLES_S = 60.0  # patience with large variables, however short the deadline of a cell is
