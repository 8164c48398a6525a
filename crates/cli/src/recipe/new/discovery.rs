//! The options of a new discovery: where its lists are, and how long.

use anyhow::{Result, anyhow};
use clap::Args;
use sotto_wire::recipe::{Discovery, Query};

use super::NewArgs;
use crate::discover::list_len;
use crate::output::WithHint;

#[derive(Debug, Default, Args)]
pub(in crate::recipe) struct DiscoveryArgs {
    /// Look for words that nobody lists, for `sotto discover`: the URL of a folder of static files,
    /// where devices read the list of a round. The mapping gives the words of a device.
    #[arg(
        long,
        help_heading = "Discovery",
        value_name = "URL",
        requires_all = ["rounds", "buckets"],
        conflicts_with_all = ["model", "labels", "donation", "dummy_rate", "insecure_exact"]
    )]
    lists: Option<String>,
    /// How long each list is, in bytes: a deny list takes about eight for each word [default: enough
    /// for the candidates]
    #[arg(long, help_heading = "Discovery", value_name = "BYTES", requires = "lists")]
    list_len: Option<u32>,
}

impl NewArgs {
    /// Whether the rounds look for words.
    pub(super) fn is_discovery(&self) -> bool {
        self.discovery.lists.is_some()
    }

    /// With the fallback of a discovery.
    pub(super) fn with_discovery(mut self) -> Self {
        if self.is_discovery() {
            self.fallback.get_or_insert_with(|| "0".to_owned());
        }
        self
    }

    /// The discovery, if there is one.
    pub(super) fn discovery(&self, query: &Query) -> Result<Option<Discovery>> {
        let (Some(lists), Some(buckets)) = (&self.discovery.lists, query.buckets()) else {
            return Ok(None);
        };
        if self.sigma.is_none() && self.device_sigma.is_none() {
            return Err(anyhow!("the noise of a discovery is not planned")).hint(
                "give --sigma or --device-sigma: `sotto discover --story words --fast`, with the \
                 same rounds and buckets, says which sigma an epsilon needs",
            );
        }
        let list_len = self.discovery.list_len.map_or_else(|| list_len(buckets, &[]), Ok)?;
        Ok(Some(Discovery { lists: lists.clone(), list_len }))
    }
}
