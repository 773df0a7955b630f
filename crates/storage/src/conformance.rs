//! The tests that every implementation of [`Storage`](crate::Storage) passes.
