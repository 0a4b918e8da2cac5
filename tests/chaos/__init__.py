"""The chaos run, ``make chaos``: everything is killed at random under load while the shop misbehaves, then counted.

``python -m tests.chaos [--seconds 180] [--seed N] [--out build/chaos.json]`` prints the seed first and exits with 1 on
any breach. What is killed when follows from the seed; what the machine makes of it does not.
"""
