"""What runs in the processes that are measured. Each is a fresh process, tells its channel when it is up, and serves."""
