//! Topics, written by hand for this purpose. `{s}` stands for the subject, `{v}` for the stated value.

mod private;
mod public;
mod topic;

use self::private::{FRIENDS, PETS, ROOMS};
use self::public::{COURSES, SERVICES, TRIPS};
use self::topic::Topic;

pub(super) const TOPICS: [Topic; 6] = [TRIPS, PETS, SERVICES, ROOMS, FRIENDS, COURSES];

/// Small talk, which gives turns a realistic length. Some of it contains words of the questions.
pub(super) const SMALL_TALK: [&str; 48] = [
    "By the way, the printer works again after I took the paper tray apart and cleaned the rollers.",
    "I read the article that you sent, and the second half seems much stronger than the first.",
    "Let me think about that for a moment, since there are two ways to look at it.",
    "If you like, I can draft a message and you change whatever does not sound like you.",
    "The first option is cheaper in the short run, while the second one saves work next year.",
    "It rained the whole morning, so everything I had planned outside had to wait.",
    "We could also leave it as it is and look at it again at the end of the month.",
    "Here is a short summary of the points on which everybody seems to agree.",
    "I am not sure that the numbers in the table add up, could you check the last column?",
    "There is an old proverb about that, but I never remember how it ends.",
    "The meeting was moved twice and in the end nobody had prepared anything.",
    "A reminder would help me, ideally in the evening before and not on the day itself.",
    "That depends on whether the parcel arrives before the weekend, which I doubt.",
    "My own preference is to begin with the smallest part and see how far it carries.",
    "Several people have asked the same thing, so it may deserve a page of its own.",
    "I compared three offers, and the differences are mostly in what they do not mention.",
    "The coffee machine in the office has a new filter and everything tastes of plastic.",
    "Could you put this into simpler words, as if I had never heard of it before?",
    "Of course, and here is the same with an example from everyday life.",
    "Last year we did it the other way round and it took almost twice as long.",
    "I will be on the train between four and six, so messages may be answered late.",
    "The doctor said that sleep matters more than anything else at the moment.",
    "Somebody left a bicycle in front of the entrance and the caretaker was furious.",
    "As far as I can tell the invoice is correct, only the date looks odd.",
    "A table with four columns would do: what, who, until when, and how much.",
    "The neighbours have started to renovate, which means drilling from seven o'clock on.",
    "I would rather keep the answer short and add the details when they are asked for.",
    "It was a pleasant evening, although the food came late and the music was too loud.",
    "That idea came up before, and was dropped because nobody wanted to maintain it.",
    "The library has extended its opening hours, so I can work there until nine.",
    "Do not worry about the deadline, they never look at anything before Monday.",
    "I made a list of open questions, sorted by how many other things depend on them.",
    "The recipe says forty minutes, but with our oven it is closer to an hour.",
    "Both are fine with me as long as the choice is written down somewhere.",
    "The bank has changed its form again, and now it wants the same figure in three places.",
    "What surprised me most is how little of it was new to anybody in the room.",
    "There is a sale until Saturday, which is a reason to wait and not a reason to hurry.",
    "I tried the exercise that you described, ten minutes every morning, and it does help.",
    "The film was longer than the book, which I did not think was possible.",
    "If the answer is no, we should at least know why before we ask again.",
    "My phone died halfway home, so I had to find the way by asking people.",
    "The report is due at the start of next week and still has no conclusion.",
    "They promised to call back today, and I have stopped believing it at lunch.",
    "Please read it twice, once for the content and once only for the commas.",
    "The garden looks better than ever, mostly because nobody had time to change anything.",
    "That is a good question, and the honest answer is that it has never been measured.",
    "The tickets for the concert were gone within minutes, as every year.",
    "I would book nothing before the others have said when they are free.",
];
