//! ibid-simd
