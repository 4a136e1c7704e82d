//! Tests of the filter: the policy as written, the program as compiled, the kernel, real programs.

mod assembler;
mod equality;
mod interpreter;
mod kernel;
mod programs;
mod table;
