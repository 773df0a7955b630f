//! ibid-format
