//! The facade against PyTorch's recorded numbers (`tests/data`), the examples, and files.

mod close;
mod digits;
mod modules;
mod serialize;
mod training;
mod walks;
