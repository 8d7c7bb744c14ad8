"""The paper's tables and figures: what benchmarks/paper.py measures, and the page that it writes.

printed      the paper's numbers
sets         its six data sets: made, or read from files (files)
learners     its three algorithms, ours and the peers', on CPU and GPU
journal      raw results in a JSON file, written after each step
hardware, memory, trainings, profiles, bandwidth      what is measured
page, tables, figures                                 what is shown of it
"""
