//! Recipes and the peers that an aggregator lists.

use super::*;

/// Strangers to a recipe: a helper that the leader knows, but not at this URL, and a leader that the
/// helper knows for other recipes.
#[tokio::test]
async fn a_recipe_is_served_with_a_listed_peer_at_its_own_url_and_with_its_own_secret() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let task = derive_task(&recipe).unwrap();

    // The log and the operator agree on the helper's URL, but this leader knows another one.
    let mut leader = places.leader_config(&world, SOON);
    leader.server.recipes.as_mut().unwrap().peers[0].url += "dap/";
    let mut helper = places.helper_config(&world, SOON);
    helper.server.recipes.as_mut().unwrap().peers.push(second_peer());
    let pair = start(task.clone(), leader, helper, Arc::new(MemoryStore::new())).await;
    eventually("the leader has read the log twice", || async {
        pair.leader.metric(r#"sotto_log_readings_total{outcome="read"}"#).await >= 2.0
            && pair.helper_tasks.task(task.id()).is_some()
    })
    .await;
    assert!(pair.leader_tasks.task(task.id()).is_none());

    // At the helper, each task has the token of its own leader.
    let ask = async |token: &str| {
        pair.http
            .post(pair.helper_resource("aggregate_shares"))
            .bearer_auth(token)
            .header("content-type", MediaType::AggregateShareReq.as_str())
            .body(Vec::new())
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(ask("token-of-the-second").await, StatusCode::FORBIDDEN);
    assert_eq!(ask("guess").await, StatusCode::FORBIDDEN);
    assert_eq!(ask(LEADER_TOKEN).await, StatusCode::BAD_REQUEST, "authenticated");
    pair.stop().await;
}

/// A request that announces an unknown task may carry any peer's token, and then needs that of the
/// task's own peer.
#[tokio::test]
async fn an_announced_task_is_answered_to_its_own_peer_only() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    world.publish(&places.key_sets(&world));
    let recipe = places.recipe(&world, "late");
    let task = derive_task(&recipe).unwrap();
    let leader = places.leader_config(&world, NEVER);
    let mut helper = places.helper_config(&world, NEVER);
    helper.server.recipes.as_mut().unwrap().peers.push(second_peer());
    let pair = start(task.clone(), leader, helper, Arc::new(MemoryStore::new())).await;
    until_reasons(&pair.helper, &[]).await;
    world.publish(&[world.sign(&recipe)]);
    let ask = async |token: &str| {
        pair.http
            .post(pair.helper_resource("aggregate_shares"))
            .bearer_auth(token)
            .header("content-type", MediaType::AggregateShareReq.as_str())
            .header(taskprov::HEADER, taskprov::header_value(task.encoded_configuration()))
            .body(Vec::new())
            .send()
            .await
            .unwrap()
            .status()
    };
    let before = world.fetched.load(Ordering::Relaxed);
    assert_eq!(ask("guess").await, StatusCode::FORBIDDEN);
    assert_eq!(world.fetched.load(Ordering::Relaxed), before, "strangers cause no read");
    assert_eq!(ask("token-of-the-second").await, StatusCode::FORBIDDEN);
    assert!(pair.helper_tasks.task(task.id()).is_some(), "a peer does");
    assert_eq!(ask(LEADER_TOKEN).await, StatusCode::BAD_REQUEST, "authenticated");
    pair.stop().await;
}

/// A listed author names the real helper at a URL of the author's choice.
#[tokio::test]
async fn a_helpers_url_is_the_helpers_own_word() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
    listener.set_nonblocking(true).unwrap();
    let honest = places.recipe(&world, "honest");
    let mut aimed = places.recipe(&world, "aimed");
    aimed.parties.helper.url = format!("http://{}/", listener.local_addr().unwrap());
    let mut entries = places.key_sets(&world);
    entries.extend([world.sign(&aimed), world.sign(&honest)]);
    world.publish(&entries);
    let pair = places.start(&world, derive_task(&honest).unwrap(), SOON).await;
    until_served(&pair, &honest).await;
    // A device that follows the log answers the honest recipe only.
    for bucket in [0, 1, 2, 3, 3] {
        let pending = answer(&world, bucket);
        assert_eq!(pending.len(), 1);
        assert_eq!(deliver(&pair, &pending[0]).await.status(), StatusCode::OK);
    }
    let collection = pair.collect(&Query::TimeInterval(interval(&pair, 4))).await;
    assert_eq!(collection.report_count, 5);
    for (tasks, who) in [(&pair.leader_tasks, "leader"), (&pair.helper_tasks, "helper")] {
        assert!(tasks.task(derive_task(&aimed).unwrap().id()).is_none(), "{who}");
    }
    assert!(listener.accept().is_err(), "nobody has connected to the author");
    pair.stop().await;
}

/// A helper at an address that is not public is connected to only if its entry says so.
#[tokio::test]
async fn a_leader_connects_to_no_private_address_unless_the_peer_says_so() {
    let mut world = PublicLog::new().await;
    let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (host, private) in [("127.0.0.1", false), ("localhost", false), ("127.0.0.1", true)] {
        let url = format!("http://{host}:{port}/");
        let places = Places::new();
        let recipe = world.recipe(&format!("{host}-{private}"), &places.leader_url(), &url);
        let set = |operator: &NoteKey, key, url: &str| key_set(operator, 1, &[hybrid(key)], url);
        world.fork();
        world.publish(&[
            set(&world.leader, 1, &places.leader_url()),
            set(&world.helper, 2, &url),
            world.sign(&recipe),
        ]);
        let mut leader = places.leader_config(&world, NEVER);
        leader.server.recipes.as_mut().unwrap().peers[0] =
            RecipePeer { private_addresses: private, ..peer(&world.helper, url) };
        let helper = places.helper_config(&world, NEVER);
        let task = derive_task(&recipe).unwrap();
        let pair = start(task.clone(), leader, helper, Arc::new(MemoryStore::new())).await;
        eventually("the leader has joined the recipe", || async {
            pair.leader_tasks.task(task.id()).is_some()
        })
        .await;
        for bucket in 0..5 {
            assert_eq!(deliver(&pair, &answer(&world, bucket)[0]).await.status(), StatusCode::OK);
        }
        let failures =
            |reason: &str| format!("sotto_helper_request_errors_total{{reason=\"{reason}\"}}");
        if private {
            eventually("the leader connects", || async { listener.accept().is_ok() }).await;
        } else {
            eventually("the leader has tried", || async {
                pair.leader.metric(&failures("no_public_address")).await >= 3.0
            })
            .await;
            assert!(listener.accept().is_err(), "{host}: nobody has connected");
        }
        pair.stop().await;
    }
}
