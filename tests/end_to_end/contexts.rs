//! Contexts do not mix.

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

#[tokio::test(flavor = "multi_thread")]
async fn two_people_in_one_room_another_room_and_a_thread_keep_their_contexts_apart() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start((0..8).map(|number| say(&format!("answer {number}"), 0))).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let (alice, bob) = (Person::new(&homeserver, "alice").await, Person::new(&homeserver, "bob").await);
    let agent = setup.user();
    let shared = alice.group_room(&[agent, &bob.user]).await;
    let private = alice.direct_room(agent).await;

    // In the shared room the agent reads all, and answers whom it was asked by.
    bob.say(&shared, "the password is swordfish").await;
    let root = alice.say_to(&shared, agent, "apple").await;
    let first = alice.answer(&shared, agent, 1).await;
    assert_eq!(first.message.mentions.as_deref(), Some([alice.user.clone()].as_slice()));
    assert_eq!(first.message.reply_to.as_ref(), Some(&root));
    bob.say_to(&shared, agent, "banana").await;
    let second = alice.answer(&shared, agent, 2).await;
    assert_eq!(second.message.mentions.as_deref(), Some([bob.user.clone()].as_slice()));
    // Somewhere else nothing of it is known.
    alice.say(&private, "cherry").await;
    alice.answer(&private, agent, 1).await;
    alice.say_in_thread(&shared, &root, agent, "damson").await;
    let third = alice.answer(&shared, agent, 3).await;
    assert_eq!(third.message.thread.as_ref(), Some(&root));

    let shown = model.shown();
    let knows = |index: usize| {
        ["swordfish", "apple", "banana", "cherry", "damson"]
            .into_iter()
            .filter(|word| shown[index].contains(word))
            .collect::<Vec<_>>()
    };
    assert_eq!(knows(0), ["swordfish", "apple"]);
    assert_eq!(knows(1), ["swordfish", "apple", "banana"]);
    assert_eq!(knows(2), ["cherry"]);
    assert_eq!(knows(3), ["apple", "damson"]);
    // Bob's words are data in alice's turn, and alice's in bob's.
    assert!(shown[0].contains(">>\\nthe password is swordfish\\n<<end"), "{}", shown[0]);
    assert!(shown[1].contains(">>\\napple\\n<<end") && shown[1].contains(": banana"), "{}", shown[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_rooms_are_answered_at_once() {
    let homeserver = Homeserver::relaxed();
    let slow = "One word after another comes here slowly and takes its time. ".repeat(4);
    let model = ModelServer::start([say(&slow, 200), say("Quick.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let (alice, bob) = (Person::new(&homeserver, "alice").await, Person::new(&homeserver, "bob").await);
    let (room, other) = (alice.direct_room(setup.user()).await, bob.direct_room(setup.user()).await);

    alice.say(&room, "slowly").await;
    alice
        .until(&room, setup.user(), "a draft", |messages| messages.last().filter(|one| one.is_live()).map(|_| ()))
        .await;
    bob.say(&other, "quickly").await;
    assert_eq!(bob.answer(&other, setup.user(), 1).await.text(), "Quick.");
    assert!(alice.messages(&room, setup.user())[0].is_live());
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), slow.trim());
}
