//! HTTP/2: the reading, the writing and the bounds of a machine.

#[path = "../cases/mod.rs"]
mod cases;
#[path = "../frames/mod.rs"]
mod frames;
#[path = "../../../../fuzz/bodies/h2_fields.rs"]
mod h2_fields;
#[path = "../../../../fuzz/bodies/h2_frames.rs"]
mod h2_frames;
#[path = "../../../../fuzz/bodies/h2_operations.rs"]
mod h2_operations;
#[path = "../http2_transcript/mod.rs"]
mod http2_transcript;
#[path = "../numbers/mod.rs"]
mod numbers;

mod bounds;
mod properties;
mod requests;
mod responses;
