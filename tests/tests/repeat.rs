//! A question that is asked again: `sotto recipe repeat` publishes the next round of a header.

use std::fs;

use sotto_tests::world::World;

const REPEAT: [&str; 5] = ["recipe", "repeat", "weekly.recipe", "--signer", "author.key"];

#[test]
fn each_round_follows_the_last_one_in_the_log() {
    let mut world = World::new().unwrap();
    world.start_with_keys().unwrap();
    let log = world.log.url();
    let repeat = [&REPEAT[..], &["--log", &log]].concat();

    world.publish_recipe_with("once", 10, &[]).unwrap();
    let (code, said) = world
        .exit_code(&["recipe", "repeat", "once.recipe", "--signer", "author.key", "--log", &log])
        .unwrap();
    assert!(code == Some(2) && said.contains("not the header of a series"), "{said}");

    let header = world.publish_recipe_with("weekly", 10, &["--rounds", "2"]).unwrap();
    let mut earlier = header["index"].as_u64().unwrap();
    for round in 0..2 {
        let published = world.run_json(&repeat).unwrap();
        assert_eq!(published["entry_file"], format!("weekly-round-{round}.recipe"));
        let index = published["index"].as_u64().unwrap();
        assert!(index > earlier, "{published}");
        earlier = index;
        let file = format!("weekly-round-{round}.recipe");
        let verify = ["log", "verify", &file, "--log", &log, "--trust", "trust.toml", "--forget"];
        let (code, said) = world.exit_code(&verify).unwrap();
        assert_eq!(code, Some(0), "{said}");
    }
    let (code, said) = world.exit_code(&repeat).unwrap();
    assert!(code == Some(2) && said.contains("all 2 rounds are in the log"), "{said}");

    // Nobody can know this header.
    let text = fs::read_to_string(world.path("weekly.toml")).unwrap();
    fs::write(world.path("other.toml"), text.replace("\"weekly\"", "\"other\"")).unwrap();
    let arguments = ["recipe", "repeat", "other.toml", "--signer", "author.key", "--log", &log];
    let (code, said) = world.exit_code(&arguments).unwrap();
    assert!(code == Some(2) && said.contains("the header is not in the log"), "{said}");
}
