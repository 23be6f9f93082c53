//! The Kinesis Client Library's lease table, and one worker process of it.

use crate::TTL;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use tenure_bench::dynamodb::{make_with_hash, plain, told, unique};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};

pub(crate) struct Table {
    client: Client,
    name: String,
}

impl Table {
    /// A table with so many leases, dealt out to `owners`.
    pub(crate) async fn create(leases: usize, owners: &[String]) -> Table {
        let table = Table { client: plain(), name: unique("kcl") };
        make_with_hash(&table.client, &table.name, "leaseKey").await.unwrap();
        let all: Vec<usize> = (0..leases).collect();
        for batch in all.chunks(25) {
            let puts = batch.iter().map(|n| {
                let put = PutRequest::builder()
                    .set_item(Some(lease(*n, &owners[n % owners.len()]).into_iter().collect()));
                WriteRequest::builder().put_request(put.build().unwrap()).build()
            });
            let request = table.client.batch_write_item().request_items(&table.name, puts.collect());
            let answer = request.send().await.unwrap();
            assert!(answer.unprocessed_items().is_none_or(|rest| rest.is_empty()));
        }
        table
    }

    pub(crate) async fn owners(&self) -> BTreeMap<String, usize> {
        let mut owners = BTreeMap::new();
        let scan = self.client.scan().table_name(&self.name).consistent_read(true);
        let mut pages = scan.projection_expression("leaseOwner").into_paginator().items().send();
        while let Some(item) = pages.next().await {
            if let Some(owner) = item.unwrap().get("leaseOwner").and_then(|owner| owner.as_s().ok()) {
                *owners.entry(owner.clone()).or_default() += 1;
            }
        }
        owners
    }

    /// A process with one worker, which finds the service at `endpoint`.
    pub(crate) fn worker(&self, endpoint: &str, id: &str) -> Command {
        let class_path = told("TENURE_TEST_KCL").unwrap();
        let mut command = Command::new("java");
        // Small, for there are ten.
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]);
        command.args(["-classpath", &class_path, "KclWorker", endpoint, &self.name]);
        // Any number of leases, one stolen at a time as by default, and nothing told.
        command.arg(TTL.as_millis().to_string()).args(["2147483647", "1", "0", id]).stderr(Stdio::null());
        command
    }
}

/// A lease as the library writes it for a shard that is read from the middle, with its range of hash keys.
fn lease(n: usize, owner: &str) -> BTreeMap<String, AttributeValue> {
    let text = |text: String| AttributeValue::S(text);
    let number = |number: &str| AttributeValue::N(number.to_owned());
    [
        ("leaseKey", text(format!("shardId-{n:012}"))),
        ("leaseOwner", text(owner.to_owned())),
        ("leaseCounter", number("1")),
        ("checkpoint", text(format!("49{n:054}"))),
        ("checkpointSubSequenceNumber", number("0")),
        ("ownerSwitchesSinceCheckpoint", number("0")),
        ("parentShardIds", AttributeValue::Ss(vec![format!("shardId-{:012}", n + 100_000)])),
        ("startingHashKey", text(format!("17{n:037}"))),
        ("endingHashKey", text(format!("18{n:037}"))),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
