"""What `scripts/gpu_check` is made of; it travels beside the script in the bundle."""
