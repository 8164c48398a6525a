//! What a collector learns, and when.

use reqwest::{Method, StatusCode};
use sotto_wire::{BatchMode, Duration as Units, Interval, MediaType, Query, Time};

use crate::background::PATIENCE;
use crate::server::harness::{COLLECTOR_TOKEN, Setup, histogram};
use crate::server::requests::problem;

#[tokio::test]
async fn too_early_a_question_waits_and_reveals_nothing() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    let everything = pair.everything();
    let (status, location) = pair.ask(&everything).await;
    assert_eq!(status, StatusCode::CREATED);
    let location = location.unwrap();
    let mut answers = Vec::new();
    for count in 0..5 {
        // Below the minimum of five, every answer is the same.
        let response = pair.collector_request(Method::GET, &location).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED, "{count} reports");
        let mut headers = response.headers().clone();
        headers.remove("date");
        answers.push((headers, response.bytes().await.unwrap()));
        if count < 4 {
            pair.upload_all([count]).await;
        }
    }
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
    assert_eq!(answers[0].0["retry-after"], "1");
    assert!(answers[0].1.is_empty());
    // Waiting alone does not complete a batch.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let response = pair.collector_request(Method::GET, &location).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);

    pair.upload_all([3]).await;
    let collection = pair.wait(&location, &everything).await;
    assert_eq!(collection.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

/// RFC 7240: a collector that prefers to wait need not poll again.
#[tokio::test]
async fn a_poll_waits_for_its_result_if_it_prefers_to() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    pair.upload_all([0, 1, 2, 3]).await;
    let everything = pair.everything();
    let location = pair.ask(&everything).await.1.unwrap();
    let http = pair.http.clone();
    let poll = |seconds: &str| {
        let request = http.get(&location).bearer_auth(COLLECTOR_TOKEN);
        request.header("prefer", format!("respond-async, wait={seconds}")).send()
    };
    let early = poll("0").await.unwrap();
    assert_eq!(early.status(), StatusCode::ACCEPTED);
    assert_eq!(early.headers()["preference-applied"], "wait");
    // A wish that cannot be read is none.
    assert_eq!(poll("long").await.unwrap().headers().get("preference-applied"), None);
    let waiting = tokio::spawn(poll("20"));
    pair.upload_all([3]).await;
    let answer = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(!answer.bytes().await.unwrap().is_empty());
    pair.stop().await;
}

#[tokio::test]
async fn a_batch_is_collected_once() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    pair.upload_all([0, 1, 2, 3, 0]).await;
    let everything = pair.everything();
    let (_, location) = pair.ask(&everything).await;
    let collection = pair.wait(location.as_ref().unwrap(), &everything).await;
    // The same request gets the same answer.
    let (status, again) = pair.ask(&everything).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(again, location);
    assert_eq!(pair.wait(&again.unwrap(), &everything).await, collection);

    let Query::TimeInterval(interval) = everything else { unreachable!() };
    let part = Query::TimeInterval(Interval::new(interval.start(), Units::new(3)).unwrap());
    let response = pair
        .http
        .post(pair.leader_resource("collection_jobs"))
        .header("dap-auth-token", COLLECTOR_TOKEN)
        .header("content-type", MediaType::CollectionJobReq.as_str())
        .body(pair.collection_request(&part))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let document = problem(response).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:batchOverlap");
    assert_eq!(document["taskid"], pair.task.id().to_string());
    pair.stop().await;
}

#[tokio::test]
async fn a_question_can_be_taken_back() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    pair.upload_all([0]).await;
    let far = Interval::new(Time::new(pair.now().as_units() - 50), Units::new(10)).unwrap();
    let (_, location) = pair.ask(&Query::TimeInterval(far)).await;
    let location = location.unwrap();
    for _ in 0..2 {
        let deleted = pair.collector_request(Method::DELETE, &location).await;
        assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    }
    assert_eq!(
        pair.collector_request(Method::GET, &location).await.status(),
        StatusCode::NOT_FOUND
    );
    pair.stop().await;
}

#[tokio::test]
async fn questions_of_the_wrong_kind_are_refused() {
    let pair = Setup::new(BatchMode::LeaderSelected).start().await;
    for (body, token) in [
        (vec![9, 9, 9], "invalidMessage"),
        // A time interval in a leader-selected task.
        (
            vec![1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            "invalidMessage",
        ),
        // An aggregation parameter, which Prio3 does not have.
        (vec![2, 0, 0, 0, 0, 0, 1, 7, 0, 0], "invalidAggregationParameter"),
        // An unknown extension.
        (vec![2, 0, 0, 0, 0, 0, 0, 0, 4, 0xff, 0x20, 0, 0], "unsupportedExtension"),
    ] {
        let response = pair
            .http
            .post(pair.leader_resource("collection_jobs"))
            .bearer_auth(COLLECTOR_TOKEN)
            .header("content-type", MediaType::CollectionJobReq.as_str())
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{token}");
        let document = problem(response).await;
        assert_eq!(document["type"], format!("urn:ietf:params:ppm:dap:error:{token}"));
    }
    assert_eq!(pair.leader_store.load().await.unwrap().collections, 0);
    pair.stop().await;
}
