//! ibid-storage
