"""Hornbeam on a Dask cluster: the model of one machine, bit for bit, whatever the partitions and the workers.

import hornbeam.dask as hbd

train_set = hbd.Dataset(client, X, label=y)
booster = hbd.train(client, {"objective": "binary"}, train_set)
"""

from hornbeam.distributed.dask.dataset import DaskDataset as Dataset
from hornbeam.distributed.dask.estimators import DaskHornbeamClassifier, DaskHornbeamRanker, DaskHornbeamRegressor
from hornbeam.distributed.dask.prediction import predict
from hornbeam.distributed.dask.training import train

__all__ = ["Dataset", "DaskHornbeamClassifier", "DaskHornbeamRanker", "DaskHornbeamRegressor", "predict", "train"]
