//! `liboribi.a`: the functions of `oribi.h`, for hosts written in C. `oribi-capi` defines them.
#![forbid(unsafe_code)]

pub use oribi_capi::*;
