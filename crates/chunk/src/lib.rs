//! ibid-chunk
