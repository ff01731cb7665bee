//! The facade against PyTorch's recorded numbers (`tests/data`), the examples, and files.

mod close;
mod digits;
mod fused;
mod modules;
mod serialize;
mod training;
mod walks;
