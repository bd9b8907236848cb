"""What runs in the notebook kernel: the world, and everything it talks to the ranks with."""
