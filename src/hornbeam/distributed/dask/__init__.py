"""Training, prediction and estimators on a Dask cluster; users import `hornbeam.dask`."""
