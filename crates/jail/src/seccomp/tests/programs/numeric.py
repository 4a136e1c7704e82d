import numpy, pandas

matrix = numpy.arange(16.0).reshape(4, 4) @ numpy.eye(4)
frame = pandas.DataFrame({"key": ["a", "b", "a"], "value": [1, 2, 5]})
print(matrix[2, 2], frame.groupby("key").sum().loc["a", "value"], int(matrix.sum()))
