"""Models as source code, which takes nothing but a compiler or Python to run.

c          model -> one file of C99: tables, and the functions of predict.c
predict.c  the functions
python     model -> a module of Python: a function of if and else for each tree, and the functions of links.py
links      the functions
"""
