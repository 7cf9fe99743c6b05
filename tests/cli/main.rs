//! The command line from end to end, and the plans of all examples.

#![allow(clippy::unwrap_used)] // a test that cannot continue fails

mod bad_input;
mod bad_tasks;
mod begin;
mod calibration;
mod checked;
mod commands;
mod data;
mod devices;
mod examples;
mod folders;
mod formats;
mod graphs;
mod journeys;
mod logs;
mod memory;
mod metrics;
mod mixtures;
mod offload;
mod pages;
mod partitions;
mod pilot;
mod pilot_plans;
mod plans;
mod plateau;
mod push_pull;
mod rankings;
mod relations;
mod reliability;
mod replay;
mod resume;
mod sameness;
mod samples;
mod savings;
mod scores;
mod skip;
mod splits;
mod subjects;
mod support;
mod targets;
mod tasks;
mod traces;
mod unplanned;
mod vertex_types;
mod weights;
