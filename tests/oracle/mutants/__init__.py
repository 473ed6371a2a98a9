"""Configs as real files differ, read by the importer and by transformers itself: bases, edits, truth, verdicts.

tools/fuzz_configs.py runs it for as long as asked, test_config_mutants.py for a little while.
"""
