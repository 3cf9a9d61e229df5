"""Providers of models for ML_PREDICT.

python_function.py   a function that the program has registered
sklearn_file.py      an estimator of scikit-learn in a file
onnx_file.py         a network in the ONNX format
openai.py            a server with the HTTP interface of OpenAI
table.py             a model as a table that is looked up by its inputs
files.py             files of models, loaded once
options.py           what files may do
matrices.py          columns as the matrices that models take and give
"""
