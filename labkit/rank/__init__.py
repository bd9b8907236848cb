"""What runs in a rank, and in the fork server that ranks are forked from."""
