//! Topics of talk outside.

use super::topic::{Matter, Topic};

/// Journeys, by city.
pub(super) const TRIPS: Topic = Topic {
    subjects: [
        "Lisbon",
        "Kyoto",
        "Tromso",
        "Oaxaca",
        "Tbilisi",
        "Halifax",
        "Ljubljana",
        "Cusco",
        "Marrakesh",
        "Gdansk",
        "Hobart",
        "Valparaiso",
        "Bergen",
        "Izmir",
        "Quebec",
        "Palermo",
    ],
    replies: [
        "Noted under {s}. Shall I put it into the calendar as well?",
        "Good, then that part of {s} is settled and I can cross it off the list.",
        "I have added it to the plan for {s}, below what we had before.",
    ],
    matters: [
        Matter {
            asked: [
                "I still have no idea where to sleep in {s}; the old town, or somewhere near the station?",
                "Could you look for rooms in {s} that do not cost a fortune?",
            ],
            told: [
                "In the end we took {v}, three nights with breakfast, and the deposit is paid.",
                "Booked: {v}, free to cancel until the Friday before, deposit by card.",
            ],
            values: [
                "the Hotel Aurora",
                "a flat above a bakery",
                "the pension by the canal",
                "the hostel with the roof garden",
                "a room at the observatory",
                "the inn of the two sisters",
            ],
            questions: [
                "Where do we sleep in {s}, and is the deposit paid?",
                "Which rooms are booked in {s}?",
            ],
        },
        Matter {
            asked: [
                "How should we travel to {s}, by rail or through the air?",
                "What are the connections to {s} like in that week?",
            ],
            told: [
                "We go by {v} and change only once; the seats are reserved in the quiet coach.",
                "I settled on {v}, since it leaves after work and needs one change.",
            ],
            values: [
                "the night train",
                "the early ferry",
                "the bus from the north terminal",
                "the direct express",
                "the morning flight",
                "the slow coastal line",
            ],
            questions: [
                "Which connection to {s} did we choose, with how many changes?",
                "How do we travel to {s}, and are seats reserved?",
            ],
        },
        Matter {
            asked: [
                "Is there a restaurant in {s} that my sister would like, who eats no meat?",
                "Where could the five of us have dinner in {s} on the last evening?",
            ],
            told: [
                "She insists on {v}: they have a vegetarian menu and want a call a week ahead.",
                "Everybody voted for {v}, so I asked for a table near the window at eight.",
            ],
            values: [
                "the Blue Spoon",
                "the place with the lemon trees",
                "the cellar under the theatre",
                "the noodle bar",
                "the old customs house",
                "the garden kitchen",
            ],
            questions: [
                "At which restaurant in {s} is there a table or a vegetarian menu?",
                "Where do we have dinner in {s}?",
            ],
        },
        Matter {
            asked: [
                "What must we not miss in {s} if it rains all day?",
                "Two free afternoons in {s}: what would you visit with children?",
            ],
            told: [
                "Put down {v}; there are tickets only with a time slot, so I took Tuesday at ten.",
                "The children want {v} most of all, and under twelve it costs nothing.",
            ],
            values: [
                "the maritime museum",
                "the puppet theatre",
                "the botanical houses",
                "the tram depot",
                "the planetarium",
                "the salt mine",
            ],
            questions: [
                "For what did we get tickets with a time slot in {s}?",
                "What do the children want to visit in {s}?",
            ],
        },
        Matter {
            asked: [
                "What will the weather be like in {s}, do I need the heavy coat?",
                "Help me with the suitcase for {s}, it has to go as hand luggage.",
            ],
            told: [
                "Leave the coat, but bring {v}; the evenings there are windy.",
                "You will be fine without boots as long as you pack {v}.",
            ],
            values: [
                "a thin wool jumper",
                "the green rain jacket",
                "two scarves",
                "a fleece and a cap",
                "the folding umbrella",
                "long underwear",
            ],
            questions: [
                "What should I bring to {s} for windy evenings?",
                "What did you tell me to pack into the suitcase for {s}?",
            ],
        },
        Matter {
            asked: [
                "How much may the whole of {s} cost us?",
                "We should fix a budget for {s} before anybody orders anything.",
            ],
            told: [
                "We agreed on {v} in all, without flights, out of the shared account.",
                "Let us say {v} as the upper limit, and whoever goes over it pays the rest.",
            ],
            values: [
                "nine hundred euros",
                "fourteen hundred",
                "two thousand one hundred",
                "six hundred and fifty",
                "seventeen hundred",
                "eleven hundred",
            ],
            questions: [
                "What is the budget for {s} without flights?",
                "Which upper limit did we agree on for {s}?",
            ],
        },
    ],
};

/// Programs that somebody runs.
pub(super) const SERVICES: Topic = Topic {
    subjects: [
        "Kestrel", "Bluefin", "Marmot", "Juniper", "Obsidian", "Tamarind", "Falcon", "Quartz", "Heron",
        "Basalt", "Larch", "Osprey", "Cobalt", "Nettle", "Puffin", "Saffron",
    ],
    replies: [
        "I wrote that into the runbook of {s}.",
        "Right, that also explains the open ticket about {s}.",
        "Then the page about {s} on the wiki is out of date, I will correct it.",
    ],
    matters: [
        Matter {
            asked: [
                "Where does {s} keep its state, do we have to migrate anything?",
                "Before the review: which storage did the team pick for {s}?",
            ],
            told: [
                "They went for {v} with a replica in the second zone and nightly dumps.",
                "It is {v} at the moment, and nobody wants to touch it before the audit.",
            ],
            values: ["Postgres", "SQLite", "a Redis stream", "Cassandra", "plain files on NFS", "DynamoDB"],
            questions: [
                "Which database holds the state of {s}, with a replica?",
                "What storage did the team pick for {s}?",
            ],
        },
        Matter {
            asked: [
                "When does {s} go out, can it still take my change?",
                "Is there a fixed day on which {s} is released?",
            ],
            told: [
                "The freeze begins the evening before; it ships on {v} after the stand-up.",
                "Always on {v}, unless somebody from support objects by noon.",
            ],
            values: [
                "Mondays",
                "every second Tuesday",
                "Thursdays",
                "the first of the month",
                "Wednesdays",
                "the last Friday",
            ],
            questions: [
                "On which day is {s} released?",
                "When does the freeze of {s} begin and when does it ship?",
            ],
        },
        Matter {
            asked: [
                "What took {s} down last night, the pager woke half of us?",
                "I have to write the incident report about {s}, what was the root cause?",
            ],
            told: [
                "It was {v}, so the workers piled up until memory ran out.",
                "Turned out to be {v}; after a restart the queue drained in a quarter of an hour.",
            ],
            values: [
                "an expired certificate",
                "a full disk",
                "a leaked file handle",
                "clock skew",
                "a deadlock in the cache",
                "a wrong DNS record",
            ],
            questions: [
                "What was the root cause of the incident with {s}?",
                "Why did the workers of {s} pile up when it went down?",
            ],
        },
        Matter {
            asked: [
                "Who owns {s} since the reorganisation?",
                "Somebody has to approve access to {s}, whom do I write to?",
            ],
            told: [
                "That is {v}, with a deputy in the Dublin office.",
                "{v} signs such requests, usually the same afternoon.",
            ],
            values: ["Priya", "Tomasz", "Annelies", "Kwame", "Rosalind", "Benoit"],
            questions: ["Who owns {s}, and where is the deputy?", "Who approves requests for access to {s}?"],
        },
        Matter {
            asked: [
                "How many calls may a client of {s} make before it gets a 429?",
                "The partner complains about throttling by {s}, what is configured?",
            ],
            told: [
                "The bucket holds {v} a minute and fills up evenly; bursts count double.",
                "It is set to {v} for each key, and was half of that last year.",
            ],
            values: [
                "sixty",
                "three hundred",
                "twelve hundred",
                "ninety",
                "five thousand",
                "seven hundred and fifty",
            ],
            questions: [
                "What is the rate limit of {s} for each key?",
                "How many calls a minute may a client of {s} make?",
            ],
        },
        Matter {
            asked: [
                "Under which terms is {s} published, may we link it?",
                "Legal asks about the licence of {s} again.",
            ],
            told: [
                "It carries {v} since the spring, only the logo is excluded.",
                "Everything in there is {v}, apart from two vendored headers.",
            ],
            values: ["Apache 2.0", "MIT", "MPL 2.0", "the LGPL", "BSD with three clauses", "the AGPL"],
            questions: [
                "Which licence does {s} have?",
                "Under which terms is {s} published, is the logo excluded?",
            ],
        },
    ],
};

/// Subjects of evening classes.
pub(super) const COURSES: Topic = Topic {
    subjects: [
        "pottery",
        "Portuguese",
        "choir",
        "fencing",
        "statistics",
        "gardening",
        "calligraphy",
        "rowing",
        "photography",
        "carpentry",
        "chess",
        "sailing",
        "cooking",
        "astronomy",
        "juggling",
        "beekeeping",
    ],
    replies: [
        "Got it, I changed the entry for {s}.",
        "Then I can finally answer the others who want to join {s}.",
        "Good to know, {s} is fuller every year.",
    ],
    matters: [
        Matter {
            asked: ["Who teaches {s} this term?", "Is the course in {s} any good, whom did you have?"],
            told: [
                "{v} does it, strict with beginners but patient with questions.",
                "I had {v}, who explains everything twice and brings cake.",
            ],
            values: [
                "Ms. Haverkamp",
                "Mr. Oduya",
                "Professor Lindt",
                "Ms. Sato",
                "Mr. Brandao",
                "Ms. Kowalczyk",
            ],
            questions: [
                "Who teaches {s}, is patient with questions?",
                "Which teacher of {s} explains twice?",
            ],
        },
        Matter {
            asked: [
                "At what time does {s} begin, I would come straight from the office?",
                "Has the timetable of {s} changed after the holidays?",
            ],
            told: [
                "Now it is {v}, doors close five minutes later.",
                "They moved it to {v} because of the hall.",
            ],
            values: [
                "a quarter past six on Mondays",
                "Saturdays at nine",
                "half past seven on Wednesdays",
                "Fridays at five",
                "Sunday at eleven",
                "Tuesday right after lunch",
            ],
            questions: ["When does {s} begin, before doors close?", "To which time was {s} moved?"],
        },
        Matter {
            asked: [
                "In which room is {s}, I ran through the whole building last week?",
                "Where do we meet for {s} in winter?",
            ],
            told: [
                "Go to {v}, through the yard and then left.",
                "From October on we meet in {v}, the heating works there.",
            ],
            values: [
                "the boathouse",
                "room 214",
                "the old gym",
                "the chapel basement",
                "pavilion C",
                "the music annex",
            ],
            questions: [
                "In which room is {s}, through the yard?",
                "Where do we meet for {s} from October on?",
            ],
        },
        Matter {
            asked: [
                "Is there an examination at the end of {s}?",
                "What does one need for the certificate in {s}?",
            ],
            told: [
                "You hand in {v} and talk about it for ten minutes.",
                "They ask for {v}, everything else is voluntary.",
            ],
            values: [
                "a portfolio of eight pieces",
                "a short essay",
                "a recorded performance",
                "two test papers",
                "a logbook with signatures",
                "a group project",
            ],
            questions: [
                "What is handed in for the examination in {s}?",
                "What do they ask for to get the certificate in {s}?",
            ],
        },
        Matter {
            asked: ["What is the fee for {s}, does the company pay a share?", "Is {s} worth its price?"],
            told: [
                "It costs {v} a term, students pay half.",
                "I paid {v} and got a third back from the health fund.",
            ],
            values: [
                "ninety euros",
                "a hundred and forty",
                "sixty-eight",
                "two hundred and five",
                "thirty-five",
                "a hundred and seventy",
            ],
            questions: [
                "What is the fee of {s} a term for students?",
                "How much did I pay for {s}, and got back?",
            ],
        },
        Matter {
            asked: [
                "What do I have to buy before the first evening of {s}?",
                "Which equipment for {s} can be borrowed?",
            ],
            told: [
                "Only {v}, the rest lies in the cupboard by the door.",
                "Bring your own {v}, with your name on it.",
            ],
            values: [
                "sturdy gloves",
                "a soft pencil set",
                "indoor shoes",
                "a linen apron",
                "a head lamp",
                "a ring binder",
            ],
            questions: [
                "What do I have to buy for {s}, what is in the cupboard?",
                "What must I bring myself to {s}, with my name on it?",
            ],
        },
    ],
};
