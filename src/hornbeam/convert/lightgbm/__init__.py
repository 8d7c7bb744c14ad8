"""LightGBM's text format.

text         bytes -> lines by section, and numbers in them
reading      text -> model
vocabulary   names of categories, which the file has without the features that they belong to
objectives   names and parameters of objectives, both ways
writing      model -> text
"""
