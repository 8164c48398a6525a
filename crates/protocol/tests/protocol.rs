//! Both aggregators, devices and the collector in memory, without a runtime, over real wire bytes.

mod client;
mod collection;
mod end_to_end;
mod forming;
mod helper_answers;
mod helper_requests;
mod input_shares;
mod lying;
mod noise;
mod one_sided;
mod poisoning;
mod receipts;
mod release;
mod retries;
mod tampering;
mod taskprov;
mod tasks;
mod upload;
