"""What scripts/pytorch_weights.py is made of."""
