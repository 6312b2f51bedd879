//! Topics of talk at home.

use super::topic::{Matter, Topic};

/// Animals that live with people.
pub(super) const PETS: Topic = Topic {
    subjects: [
        "Bruno", "Mimi", "Tofu", "Captain", "Luna", "Oskar", "Pepper", "Ziggy", "Hazel", "Biscuit", "Nala",
        "Merlin", "Poppy", "Rufus", "Shadow", "Waffle",
    ],
    replies: [
        "Poor {s}! I will keep it with the other notes.",
        "That belongs on the sheet about {s} that hangs on the fridge.",
        "Understood, and give {s} a pat from me.",
    ],
    matters: [
        Matter {
            asked: [
                "{s} has been scratching again all night, what did they prescribe last time?",
                "The box with the pills for {s} is empty, do you remember what was in it?",
            ],
            told: [
                "It was {v}, half a tablet with food, for ten days.",
                "The label said {v}, twice a day, never on an empty stomach.",
            ],
            values: ["Cetirine", "Apoquel", "Prednivet", "Metronil", "Gabacane", "Ondavet"],
            questions: [
                "Which medicine was prescribed to {s}, how many tablets?",
                "What were the pills of {s} called that go with food?",
            ],
        },
        Matter {
            asked: [
                "{s} left the bowl full for the third time, maybe another brand?",
                "What do you feed {s} these days, the stuff from the supermarket?",
            ],
            told: [
                "We switched to {v}, a cup in the morning and the rest at six.",
                "Since the stomach trouble it is only {v}, soaked in warm water.",
            ],
            values: [
                "turkey with rice",
                "the grain-free salmon",
                "boiled pumpkin and chicken",
                "the lamb kibble",
                "venison from the tin",
                "oat porridge with egg",
            ],
            questions: ["What does {s} get fed in the morning?", "To which brand of food was {s} switched?"],
        },
        Matter {
            asked: [
                "Who looks at the teeth of {s}, still the practice on the hill?",
                "I need an appointment for the vaccination of {s}, where do you go?",
            ],
            told: [
                "We see {v} now, who also comes to the house when it is urgent.",
                "Ask for {v}, the others there are too hasty with a needle.",
            ],
            values: ["Dr. Okafor", "Dr. Lindqvist", "Dr. Amrani", "Dr. Petrov", "Dr. Yoon", "Dr. Castellano"],
            questions: [
                "Which vet sees {s} when it is urgent?",
                "Whom should I ask for about the vaccination of {s}?",
            ],
        },
        Matter {
            asked: [
                "Is there anything that frightens {s}, before I take over for the weekend?",
                "{s} hid under the bed for an hour yesterday and I have no idea why.",
            ],
            told: [
                "That is because of {v}; close the curtains and put the radio on.",
                "It happens with {v}, ever since that day in the park, and passes by itself.",
            ],
            values: [
                "fireworks",
                "the vacuum cleaner",
                "motorcycles",
                "men with hats",
                "thunder",
                "the garbage truck",
            ],
            questions: [
                "What frightens {s} so that the radio should be on?",
                "Why does {s} hide under the bed?",
            ],
        },
        Matter {
            asked: [
                "Who takes {s} while you are away in August?",
                "We are looking for somebody to walk {s} on weekdays around noon.",
            ],
            told: [
                "{v} does it for twelve an hour and has a key already.",
                "I arranged it with {v}, who lives two doors down and works from home.",
            ],
            values: [
                "Ingrid",
                "the twins next door",
                "Mr. Adeyemi",
                "Cousin Paolo",
                "the student upstairs",
                "Yuki",
            ],
            questions: ["Who walks {s} and has a key?", "With whom was it arranged to take {s} in August?"],
        },
        Matter {
            asked: [
                "Did you ever insure {s}, or do you pay every bill yourself?",
                "The operation of {s} was expensive, who covers that?",
            ],
            told: [
                "There is a policy with {v}, they pay four fifths above the excess.",
                "{v} refunded it within two weeks after I sent the invoice.",
            ],
            values: [
                "Pawsure",
                "the Mutual of Bern",
                "Agria",
                "Helvetica Pets",
                "the farmers' union",
                "Fellmond",
            ],
            questions: ["With whom is {s} insured?", "Who refunded the operation of {s}?"],
        },
    ],
};

/// A house under renovation.
pub(super) const ROOMS: Topic = Topic {
    subjects: [
        "kitchen",
        "attic",
        "bathroom",
        "cellar",
        "hallway",
        "study",
        "nursery",
        "pantry",
        "porch",
        "garage",
        "bedroom",
        "laundry",
        "balcony",
        "staircase",
        "workshop",
        "greenhouse",
    ],
    replies: [
        "Fine, I have that on the list for the {s} now.",
        "Then the {s} is one worry less.",
        "I will send it to the architect together with the drawings of the {s}.",
    ],
    matters: [
        Matter {
            asked: [
                "Which colour did we want on the walls of the {s}?",
                "The painter stands in the {s} and asks what to mix.",
            ],
            told: [
                "It is {v}, the matt one, two coats over the primer.",
                "We chose {v} after holding six samples against the light.",
            ],
            values: ["pale sage", "warm white", "terracotta", "pigeon blue", "ochre", "chalk grey"],
            questions: [
                "What colour do the walls of the {s} get, matt?",
                "What was chosen to paint the {s}?",
            ],
        },
        Matter {
            asked: [
                "Who repairs the pipes in the {s}, the same company as before?",
                "I am standing in the {s} up to the ankles in water, whom do I call?",
            ],
            told: [
                "Call {v}, they came within the hour last winter and charged fairly.",
                "{v} knows the plan of the lines, the number is on the meter.",
            ],
            values: [
                "Brenner and Sons",
                "old Mr. Falk",
                "the emergency service of the works",
                "Nadia from the co-op",
                "Hydrofix",
                "the caretaker's brother",
            ],
            questions: [
                "Whom do I call about the pipes in the {s}?",
                "Who knows the plan of the lines for the {s}?",
            ],
        },
        Matter {
            asked: [
                "What goes on the floor of the {s}, it has to be warm for bare feet?",
                "The joiner needs an answer about the floor in the {s} today.",
            ],
            told: [
                "Take {v}, oiled and not varnished, laid across the beams.",
                "We want {v}; the offcuts will do for the shelf.",
            ],
            values: ["larch boards", "cork", "reclaimed oak", "bamboo", "linoleum", "slate tiles"],
            questions: ["What floor does the {s} get, oiled?", "What do we want laid in the {s}?"],
        },
        Matter {
            asked: [
                "Where does the damp spot in the {s} come from?",
                "There is a crack in the {s} that grows, did anybody look at it?",
            ],
            told: [
                "The expert blames {v} and wants to see it again after the frost.",
                "According to the report it is {v}, harmless as long as it is aired.",
            ],
            values: [
                "the blocked gutter",
                "a slipped roof tile",
                "the old chimney",
                "settling of the east wall",
                "a leaking joint",
                "the neighbour's drain",
            ],
            questions: [
                "What does the expert blame for the damp spot in the {s}?",
                "What does the report say about the crack in the {s}?",
            ],
        },
        Matter {
            asked: [
                "It is far too dark in the {s}, which lamp did you have in mind?",
                "The electrician has one socket left in the {s}, what is to hang there?",
            ],
            told: [
                "Hang up {v}, on a dimmer, about a metre over the table.",
                "I ordered {v} with a warm bulb, it arrives on the ninth.",
            ],
            values: [
                "the brass pendant",
                "a paper lantern",
                "two wall spots",
                "the enamel shade from the flea market",
                "a strip behind the moulding",
                "the glass globe",
            ],
            questions: [
                "Which lamp is to hang in the {s}?",
                "What was ordered for the {s}, with a warm bulb?",
            ],
        },
        Matter {
            asked: [
                "What did they offer for the whole of the {s}, before taxes?",
                "The bank wants a figure for the {s}.",
            ],
            told: [
                "The second offer was {v}, scaffolding included, valid for six weeks.",
                "They wrote {v} and half of it is due at the start.",
            ],
            values: [
                "eight thousand four hundred",
                "twelve thousand",
                "five thousand nine hundred",
                "twenty-one thousand",
                "three thousand two hundred",
                "fifteen thousand seven hundred",
            ],
            questions: [
                "How much was the second offer for the {s}, scaffolding included?",
                "What does the {s} cost, and how much of it is due at the start?",
            ],
        },
    ],
};

/// Friends, and what happens to them.
pub(super) const FRIENDS: Topic = Topic {
    subjects: [
        "Marta", "Henrik", "Aisha", "Dmitri", "Chiara", "Femi", "Saskia", "Rafael", "Noor", "Gustav",
        "Imogen", "Tariq", "Beatriz", "Callum", "Leilani", "Zdenek",
    ],
    replies: [
        "I will remember that about {s}.",
        "That sounds very much like {s}!",
        "Then I know what to write into the card for {s}.",
    ],
    matters: [
        Matter {
            asked: [
                "What could we give {s} for the fortieth birthday?",
                "Any idea for a present for {s} that is not another book?",
            ],
            told: [
                "We all chip in for {v}, it is hidden in my wardrobe already.",
                "I overheard a wish for {v}, so let us keep it a secret.",
            ],
            values: [
                "a telescope",
                "a ceramics course",
                "the big atlas",
                "a bread oven",
                "a pair of skates",
                "the record player",
            ],
            questions: [
                "Which present for {s} is hidden in the wardrobe?",
                "What does {s} wish for as a present?",
            ],
        },
        Matter {
            asked: [
                "What does {s} do now, after leaving the agency?",
                "I met {s} at the station and forgot to ask about the new job.",
            ],
            told: [
                "It is a post as {v}, four days a week and close to home.",
                "Started as {v} in March and has never been happier.",
            ],
            values: [
                "a harbour pilot",
                "a school librarian",
                "a court interpreter",
                "a forester",
                "a pastry chef",
                "an archivist",
            ],
            questions: ["What is the new job of {s}, four days a week?", "As what did {s} start in March?"],
        },
        Matter {
            asked: [
                "{s} comes to dinner on Sunday, is there something I must not cook?",
                "What was it again that made {s} ill at the wedding?",
            ],
            told: [
                "No {v}, not even traces, there is a syringe in the handbag for that.",
                "It was the {v}, so read every label twice.",
            ],
            values: ["cashews", "shellfish", "celery", "sesame", "lupin flour", "mustard"],
            questions: [
                "To what is {s} allergic, even traces?",
                "What made {s} ill so that I must read labels?",
            ],
        },
        Matter {
            asked: [
                "Where did {s} move, I want to send a postcard?",
                "Does {s} still live in the flat over the pharmacy?",
            ],
            told: [
                "The new address is {v}, third floor, the bell does not work.",
                "They found something in {v} with a view of the river.",
            ],
            values: [
                "Weaver Lane 9",
                "Orchard Street 41",
                "the former mill",
                "Quay 17",
                "Linden Square 3",
                "Station Road 88",
            ],
            questions: [
                "What is the new address of {s}, which floor?",
                "Where does {s} live now, by the river?",
            ],
        },
        Matter {
            asked: ["How did {s} break that leg?", "I heard that {s} is in hospital, what happened?"],
            told: [
                "It happened {v}, the cast stays on for five weeks.",
                "An accident {v}; visitors are welcome after three.",
            ],
            values: [
                "on the ski slope",
                "while pruning the cherry tree",
                "on wet stairs",
                "during the charity run",
                "with the delivery bike",
                "at the climbing hall",
            ],
            questions: [
                "What happened to {s}, how long does the cast stay on?",
                "What accident brought {s} to hospital, and when are visitors welcome?",
            ],
        },
        Matter {
            asked: [
                "I owe {s} something from the weekend, do you know how much?",
                "Did {s} ever get back what we borrowed for the tent?",
            ],
            told: [
                "It was {v}, I transferred it with a note about the groceries.",
                "Still open: {v}, we said we would settle it in cash.",
            ],
            values: [
                "eighty-five",
                "forty-two fifty",
                "a hundred and thirty",
                "nineteen",
                "two hundred and ten",
                "sixty-six",
            ],
            questions: [
                "How much do we owe {s}, to be settled in cash?",
                "How much was transferred to {s} for the groceries?",
            ],
        },
    ],
};
