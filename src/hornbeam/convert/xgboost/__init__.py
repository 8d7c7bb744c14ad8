"""XGBoost's model files: JSON, and UBJ, which is the same document in binary form.

document     bytes <-> document: JSON text, and checked access to what is in a document
ubj          bytes <-> document: Universal Binary JSON
trees        trees, both ways
categories   names of categories, both ways
objectives   names, parameters and starts of objectives, both ways
reading      document -> model
writing      model -> document
configuration  what `Booster.save_config` returns
carrying     files that XGBoost reads, with the model as it is in a key of its own
"""
