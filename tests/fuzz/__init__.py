"""A fuzzer of files: real batches and side files with wrong insides, which every reading command is given.

``KSEG_FUZZ_ROUNDS``, ``KSEG_FUZZ_SEED`` and ``KSEG_FUZZ_KEEP`` are told of in CONTRIBUTING.md.
"""
