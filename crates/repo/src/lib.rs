//! ibid-repo
