"""The driver of trees and rounds: one kernel for dense and for sparse data."""
