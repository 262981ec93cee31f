#include "data/stories/grammar.h"

/* The plots. Each may add C and D, things X Y Z and what else it needs to what
 * the opening has left (rules.c); whatever is said about them has to hold
 * until the end.
 */

const struct rule story_plots[] = {

{"plot",
    "(<lost>|<promise>|<trade>|<secret>|<party>|<errand>|<borrow>|<hunt>|<finder>)"},

/* A thing is put somewhere and forgotten; or somebody moves it. */

{"lost",
    "{A} [had|owned|treasured] {+X.a} {+X.noun}{X.owner=A}<treasured>. <one day> {A} "
    "and {B} <went> to {+P} <to do>. {A} (put|hid|laid|left|set down|stowed) {X} "
    "{+X.spot}{X.at=P}[ to keep it safe| so that it would stay dry| because {A.his} "
    "arms were full|].<events> (Then|Later|After that|After a while|Before long|When "
    "they had had enough), they <went> [on |]to {+Q}. <doing><events>\n(In the "
    "evening|At sunset|Before supper|When it grew dark|When they were home again|At "
    "the garden gate), {A} (reached for|looked for|asked for|missed|wanted) {X}, but "
    "it was [gone|not there|nowhere to be seen]. `(Oh no|Oh dear|Help|Goodness|Alas"
    "|Good heavens), [I have lost my {X.noun}|my {X.noun} is gone|somebody took my "
    "{X.noun}|I cannot find my {X.noun}]!` <gasped> {A}. (<remembered>|<moved>)"},

{"treasured",
    "[| that {A.he} had made {A.self}| from {A.his} (grandmother|uncle|godmother"
    "|sister|teacher|cousin)|, and {A.he} took it everywhere|, and nobody else had "
    "one like it| that {A.he} had (found|won|bought|been given) on {A.his} birthday| "
    "with a picture of a <creature> on it]"},

{"remembered",
    "[First|At once|So] they looked {Q.at}, but (there was nothing|it was not there"
    "|they saw only <heap>|nobody had seen it|in vain).<asked C> (At last|Then"
    "|Suddenly|All at once) {B} (remembered|jumped up|had a thought|slapped {B.his} "
    "forehead|began to smile). `You [put|left] it {X.at}, {X.spot}!` {B.he} <cried>. "
    "[They|The two friends|{A} and {B}] <went> back to {P}, looked {X.spot}, and "
    "there [it was|was {X}]. <reward>"},

{"asked C",
    "["
    "| Then they asked {+C}, {+C.atrait} {+C.kind}. `I saw {+Y.a} {+Y.noun} {+Y.at}, "
        "but no {X.noun},` said {C}[ <how>|]."
    "| They asked {+C}, {+C.atrait} {+C.kind}, but {C.he} had been {+I.at} all day "
        "and had seen nothing but <heap>.]"},

{"moved",
    "[Just then|At that moment|Luckily|A moment later] {+C} came by, {+C.atrait} "
    "{+C.kind}[| with <garb>| on the way home]. `I found {X.a} {X.noun} {X.at}, "
    "{X.spot},` said {C}[ <how>|], `and took it to {+X.place} [because of the rain"
    "|to keep it safe|so that nobody would step on it|for you|before a <creature> "
    "could take it].` [They|The three of them|The friends] <went> to {X.place}, and "
    "there [it was|was {X}|they found {X}]. {A} thanked the {C.kind}[ <how>|]. "
    "<reward>"},

{"reward",
    "[{A} was so [happy|glad|grateful] that {A.he} (gave|made|brought|cooked|bought) "
        "{B} <plate> {B.likes}."
    "|`Thank you, {B},` said {A}, and [the next day|that very evening|soon] {B} "
        "found <plate> {B.likes} (on the doorstep|on the table|in a paper bag|under "
        "the pillow|in the mail)."
    "|{A} hugged {X}, and then {A.he} hugged the {B.kind}.]"},

{"plate",
    "(some|a big bowl of|a mountain of|a plate of|a whole basket of|a pot of|a bit of"
    "|a bag of|plenty of|a spoonful of|enough)"},

/* A promise made early and kept late. */

{"promise", "(<promise skill>|<promise sight>|<promise thing>)"},

{"promise skill",
    "{B} (wanted|longed|wished|hoped|tried) to [learn to |]{+L}, but (nobody had "
    "ever shown {B.him} how|{B.he} did not know how|it was too hard|{B.he} was "
    "afraid to fail). <one day> {A} said: `I [will|can|want to|promise to] teach you "
    "to {L} {+J}.` `(Promise|Really|Do you mean it|Truly)?` asked {B}[ <how>|]. `(I "
    "promise|I do|You have my word|Just wait),` said {A}[ <how>"
    "|].<events><waiting><events>\n<at last> {J.other}.<tempted> {A} <went alone> to "
    "{B} and [taught {B.him}|showed {B.him} how] to {L}. [It took|They needed] {+N} "
    "(hours|days|lessons|tries|evenings) and a <small> <creature> for [company|help"
    "|a judge], [and then|and after that|but in the end] {B} could {L} [almost |]as "
    "well as {A}. <kept>"},

{"promise sight",
    "{B} had never seen {+E}. `(I know the way|I have been there|It is far, but I "
    "can find it),` said {A}[ <how>|]. `I promise to take you there {+J}.` {B} was "
    "so [happy|excited] that {B.he} (could not sleep|danced|told everyone|sang a "
    "<tune>|forgot to eat).<events><waiting><events>\n<at last> {J.other}.<tempted> "
    "{A} (knocked at {B.his} door|called for {B}|woke {B}) [early|before breakfast"
    "|at dawn] and said: `[Today I will show you|Get up, we are going to see|Now we "
    "go to see] {E}.` They <went> past {+P} and past {+Q}, and (at noon|in the "
    "evening|at last|after hours) they [saw|stood before|reached] {E}. `(It is "
    "beautiful|How big it is|I had no idea|I shall never forget this|I can smell "
    "<smell>|It makes me think of <many>)!` <cried> {B}. <kept>"},

{"promise thing",
    "{A} had {+X.a} {+X.noun}{X.owner=A}<treasured>. {B} (admired it|looked at it"
    "|asked about it|talked of it) [every day|all the time|whenever {B.he} came]. "
    "`[I will give it to you|You shall have it|It will be yours] {+J},` {A} (promised"
    "|said|told {B.him}) [one day|one evening|<how>].<events> {A} (kept|put|locked"
    "|hid) {X} {+X.spot} {+X.at} until then.<waiting><events>\n<at last> {J.other}. "
    "{A} (did not want to part with it|had grown fond of it|could hardly bear to "
    "give it away|sighed), but (a promise is a promise|{A.he} had given {A.his} word"
    "|{A.he} was {A.trait} and kept {A.his} word). {A.He} <went alone> to {X.place}, "
    "looked {X.spot}, [took out|pulled out|dusted off|wrapped up] {X} and [gave"
    "|handed|brought] it to {B}.{X.owner=B} `(You remembered|For me|Thank you|I "
    "cannot believe it)!` <cried> the {B.kind}. <kept>"},

{"waiting",
    "[ (Days|Weeks|Months) went by [slowly|quickly], and {B} (waited|did not ask"
        "|often thought of it|crossed off the days)."
    "| [Meanwhile|In the meantime] {+C}, {+C.atrait} {+C.kind}, came to live "
        "{+I.at}, and {B} [told|wrote to|asked] {C.him} about the promise. `({A} "
        "will forget|Wait and see|You can trust {A}|Nobody keeps such promises),` "
        "said {C}[ <how>|]."
    "| There was much to do. {A} (painted|mended|dug up|swept|measured|cleaned) the "
        "<worn> <landmark>, and {B} (helped|brought {A.him} some {A.likes}|sang a "
        "<tune>|watched|fetched <heap>).]"},

{"at last", "(At last|In the end|Then, one day,|And then|Finally)"},

{"tempted",
    "["
    "| That day {A} was (tired|busy|not feeling well|deep in a book|in bed with a "
        "cold), but {A.he} had not forgotten."
    "| `Come and eat {+G} with me,` said a <small> <creature>, but {A} shook {A.his} "
        "head. `I made a promise.`"
    "| {A} [woke|got up] [early|at once] and remembered what {A.he} had said.]"},

{"kept",
    "[{A} had kept {A.his} promise."
    "|`You kept your [promise|word],` said {B}[ <how>|]."
    "|A promise is a promise, [thought|said] {A}."
    "|And to say thank you, {B} (cooked|brought|made|ordered) {A}'s favourite [food"
        "|dish], {A.likes}."
    "|In return, {B} gave {A} <plate> {A.likes}.]"},

/* Three things change hands. */

{"trade",
    "{A} had {+X.a} {+X.noun}{X.owner=A}, {B} had {+Y.a} {+Y.noun}{Y.owner=B}, and "
    "their (friend|neighbour|cousin|lodger) {+C}, {+C.atrait} {+C.kind}, had {+Z.a} "
    "{+Z.noun}{Z.owner=C}. <one day> they [all |]met {+P.at} (to trade|to show their "
    "things|and talked about <many>|and unpacked their bags).<fuss> <swap><events> "
    "<swap><events>[| <swap>]\nIn the end {X.owner} [had|went home with] {X}, "
    "{Y.owner} had {Y}, and {Z.owner} had {Z}. [Everyone was (happy|content|pleased)"
    "|All three were (happy|content|tired)|And nobody wanted to swap back]."},

{"swap",
    "({!x}{S=X.owner}{O=Y.owner}<offer> {X} for {Y}{X.owner=O}{Y.owner=S}<deal>"
    "|{!y}{S=Y.owner}{O=Z.owner}<offer> {Y} for {Z}{Y.owner=O}{Z.owner=S}<deal>"
    "|{!z}{S=Z.owner}{O=X.owner}<offer> {Z} for {X}{Z.owner=O}{X.owner=S}<deal>)"},

{"offer",
    "[{S} [asked|begged|urged] {O} to [swap|trade]|{S} offered {O}|{S} and the "
    "{O.kind} agreed to swap|(Then|Suddenly|After some talk|Without a word), {S} "
    "gave {O}]"},

{"deal",
    "[. `(Yes|Gladly|Done|Why not|A fair trade),` said {O}[ <how>|]."
    "|, and {O} (agreed|nodded|said yes|was content|shook hands on it)."
    "|, because {S.he} (had always wanted one|liked it better|needed one for {S.his} "
        "(aunt|holiday|garden|collection)). {O} was (content|glad|happy|surprised"
        "|speechless|moved)."
    "|. They shook hands on it.]"},

/* Directions and a secret word are told once and needed later. */

{"secret",
    "<one day> {A} (decided|wanted|wished|resolved|hoped) to (see|find|visit|look "
    "for) {+E}. {A.He} asked {+M.other} [for the way|how to get there|about it]. `Go "
    "to {+P}, then to {+Q}, and then to {+R},` said {M}[ <how>|]. `At the (last|iron"
    "|little|hidden|blue|golden|garden|north) gate you must knock {+N} times and [say"
    "|whisper|call out|sing] the secret word[. The word is|, which is|. Remember it: "
    "it is] {+W}.` {A} thanked {M} and [took {B} along|asked {B} to come too|set out "
    "with {B}|went to fetch {B}].<events>\nThey <went> to {P}. <doing><events> From "
    "there they <went> to {Q}. <on the way> After a (long|short|cold|merry|weary"
    "|silent) walk they [came to|reached] {R}. <doing><events>\n[Then|Finally|In the "
    "evening] [they stood before the gate|there was the gate|they saw the gate, "
    "beside a <worn> <landmark>]. {A} knocked {N} times. `(Who is there|What is the "
    "word|Who goes there|What do you say)?` asked a (deep|small|sleepy|friendly"
    "|hoarse|thin|gentle|grumpy) voice. <word> The gate [opened|swung open], and "
    "(there was|before them was|they saw|behind it was) {E}. [`It was worth it,` "
    "said {B}[ <how>|].|They stayed until [dark|the stars came out|supper time].|{B} "
    "(laughed|clapped|danced|wept) for joy.|They had never seen anything like it.]"},

{"word",
    "[`{W},` said {A}[ <how>|]."
    "|{A} had forgotten the word. `{W},` whispered {B}."
    "|{B} looked at {A}. `{W}!` they (said|called|shouted|cried) together."
    "|`It is {W},` said {A}[ <how>|].]"},

{"on the way",
    "[There they met {+C}, {+C.atrait} {+C.kind}. `Where are you going?` asked {C}[ "
        "<how>|]. `To {R}, and then to {E},` said {S:AB}."
    "|They [sat down|rested] for a while. `How many times must we knock?` asked {B}. "
        "`{N.Up} times,` said {A}."
    "|{S:AB} was (tired|hungry|thirsty|cold), so they had some {+F}. `Now to {R},` "
        "said {A}[ <how>|].]"},

/* Everyone gets what they love, on the day that was said. */

{"party",
    "{A} [planned|wanted to give|dreamed of giving] a (party|feast|surprise|picnic"
    "|ball|dinner) {+P.at} on {+T}[|, and nobody was to be forgotten]. <one day> "
    "{A.he} <went alone> to {+Q} and [found|met] {+C}, {+C.atrait} {+C.kind}. `Come "
    "to {P} on {T},` said {A}[ <how>|]. `What do you like best?` `(I love|I like|I "
    "dream of|I want|Give me) {+C.likes},` [said|answered|replied] {C}[ <how>"
    "|].<fuss> [After that|Then|Next] {A} [visited|called on] {+D}, {+D.atrait} "
    "{+D.kind} who (lived|worked|was busy|was asleep|sang) {+R.at}. `I will come on "
    "{T},` said {D}[ <how>|], `if [I can have|I may have|you give me] "
    "{+D.likes}.`<fuss>\n(On {T}|When {T} came|At noon on {T}), [they all|the guests"
    "|the friends] [met|gathered|sat down] {P.at}.<fuss> [{S:BCD} got|The "
    "{S:BCD.kind} got] {S.likes}, [{O:BCD}|the {O:BCD.kind}] got {O.likes}, and "
    "[{U:BCD}|the {U:BCD.kind}] got {U.likes}. <party fun> And {A} [had|ate] <plate> "
    "{A.likes}."},

{"party fun",
    "[The {S:BCD.kind} <performed>, and the {O:BCD.kind} (clapped|laughed|played "
        "along|joined in)."
    "|`How did you know?` asked the {S:BCD.kind}[ <how>|]. `You told me,` said {A}."
    "|They (danced|sang|played|joked) until (dark|midnight|the candles went out|the "
        "cock crowed)."
    "|{S:BCD} had brought {+X.a} {+X.noun}{X.owner=A} for {A}[|, wrapped in <heap>].]"},

{"performed",
    "(sang|danced|told a funny story|stood on one leg|juggled with <heap>|recited a "
    "poem about <many>|sang a <tune> about <many>|imitated a <small> <creature>)"},

/* A list to keep in mind. */

{"errand",
    "<one day> {A}'s (grandmother|aunt|mother|godmother|big sister) (called|woke"
    "|sent for|looked for) {A}. `[Please|Be so good and] [bring|fetch|buy] me {+F}, "
    "{+G} and {+X.a} {+X.noun} from the shop {+P.at},` she said[ <how>|]. `(I will"
    "|Yes, I will|I shall not forget|At once),` said {A}, and [{A.he} took {B} along"
    "|{B} went with {A.him}|{A.he} asked {B} to come].<events> They <went> past "
    "{+Q}. <doing> <asked list><events>\n(At last|Finally|Before noon|After a while) "
    "they reached the shop {P.at}. {A} (bought|asked for|found|got) [everything|all "
    "of it]: {F}, {G} and {X}. [{B} [carried|took] {X}, and {A} [carried|took] the "
    "{F} and the {G}|{A} [carried|took] {X}, and {B} [carried|took] the {F} and the "
    "{G}].<events> (At home|Back home|When they came home|In the kitchen), she "
    "(looked into|emptied|unpacked|opened) the bag. `{F.Up}, {G} and {X},` she "
    "[counted|said]. `(You forgot nothing|Well done|That is all of it|How clever you "
    "are)!` Then she (gave|cooked|made|served) {A} some {A.likes} and {B} some "
    "{B.likes}."},

{"asked list",
    "[There they met {+C}, {+C.atrait} {+C.kind}. `Where are you going?` asked {C}[ "
        "<how>|]. `To the shop {P.at},` said {A}, `for {F}, {G} and {X.a} {X.noun}.`"
    "|{B} asked: `What must we bring?` `{F.Up}, {G} and {X.a} {X.noun},` said {A}[ "
        "<how>|]."
    "|`Was it {+I.at} or {P.at}?` asked {B}. `It was {P.at},` said {A}[ <how>|]."
    "|{A} (said|sang|whispered|repeated) it to {A.self}: {F}, {G} and {X.a} "
        "{X.noun}.]"},

/* A borrowed thing goes back in time. */

{"borrow",
    "{B} had {+X.a} {+X.noun}{X.owner=B}<prized>. <one day> {A} [asked to borrow it"
    "|wanted to borrow it|asked if {A.he} might take it along]. `(Of course|You may"
    "|Gladly|Take it), but bring it back on {+T},` said {B}[ <how>|]. {A} [promised"
    "|gave {A.his} word|nodded].<events>\n[The next day|Soon|Right after that], {A} "
    "took {X} to {+P}{X.at=P}, where {A.he} [met|wanted to meet|was to meet] {+C}, "
    "{+C.atrait} {+C.kind}. They (played cards|talked about <many>|laughed|danced to "
    "a <tune>|fished|argued|sorted <heap>|looked at a <worn> <landmark>) until "
    "(sunset|supper|it rained|late|bedtime), and [when {A} went home, {X} stayed "
    "behind|{A} left {X} behind|{A} forgot {X}|{A} went home without {X}], "
    "{+X.spot}.<fuss><noticed> (On the evening before|The day before|Early on) {T}, "
    "{A} (sat up in bed|jumped up|dropped {A.his} spoon|turned pale). `[The {X.noun}"
    "|{B}'s {X.noun}|I forgot the {X.noun}|Where is the {X.noun}]!` {A.he} <gasped>. "
    "(<fetched>|<handed over>)\n(So on|On|And on) {T} {A} [stood|knocked|rang] at "
    "the [door|gate|window] of the {B.kind}. `[Here is|This is|I am bringing back] "
    "your {X.noun},` {A.he} said[ <how>|]. `[On {T}, as you promised|You kept your "
    "word|Right on time],` said {B}[ <how>|]. <shared>"},

{"prized",
    "[|, which {B.he} [polished|cleaned|looked at] every (day|evening|Sunday|morning)"
    "| from {B.his} (uncle|grandfather|sister|niece)|, and {B.he} was proud of it| "
    "with a picture of a <creature> on it]"},

{"noticed",
    "[ For days {A} thought of (other things|<many>|<many> and <many>)."
    "| {A} (painted|cooked|read|slept|worked|baked|played cards|sorted <heap>) and "
        "did not think of it at all."
    "| Days [passed|went by]. One evening {A} and {B} ate {+F} together and talked "
        "about <many>.]"},

{"fetched",
    "[{A.He} thought hard. It had to be|Where was it? It could only be|{A.He} "
    "remembered: it was] {X.at}, {X.spot}. {A} <went alone> to {X.place} (in the dark"
    "|through the rain|without a hat|in slippers|before breakfast), reached down and "
    "pulled out {X}. It was (wet|dirty|muddy|cold|sticky), so {A.he} (dried|cleaned"
    "|polished|wiped|brushed) it [twice|with care|until it shone|with {A.his} scarf]."},

{"handed over",
    "{A} <went alone> to {X.place} and looked {X.spot}, but there was nothing. Then "
    "{A.he} [met|saw] {C}. `(I have it|I took it home|Do not worry|Calm down),` said "
    "the {C.kind}[ <how>|]. `I was afraid that it would be (stolen|lost|spoiled"
    "|broken), so I put it {+X.at}.` {A} [thanked {C.him}|hugged {C.him}] and <went "
    "alone> to {X.place} to get it."},

{"shared",
    "[They ate some {B.likes}, for that was what {B} loved."
    "|Then {A} brought out <plate> {B.likes}, and {B} (beamed|laughed|clapped"
        "|blushed)."
    "|`You may borrow it again [any time|whenever you like],` {B.he} added."
    "|{A} had also brought <plate> {B.likes}, to say thank you.]"},

/* Things are hidden for a game, and others play too. */

{"hunt",
    "<one day> {A} [thought of|made up|invented] a game. {A.He} hid {+X.a} {+X.noun} "
    "{+X.at}, {+Y.a} {+Y.noun} {+Y.at} and {+Z.a} {+Z.noun} {+Z.at}. `(Who finds a "
    "thing may keep it|Find them, and they are yours|Now look for them|You have "
    "until supper),` {A.he} said to {B} and {+C}, {+C.atrait} {+C.kind}.<fuss>[| "
    "<carried>[| <carried>]]\n<search><fuss> <search><fuss> <search> [So|In the end"
    "|And so] {X.owner} [had|kept] {X}, {Y.owner} [had|kept] {Y}, and {Z.owner} [had"
    "|kept] {Z}. [`You were quick,` said {A}[ <how>|].|`Again!` <cried> {S:BC}.|{A} "
    "laughed. `Tomorrow you hide them,` {A.he} said.|Then they all had some "
    "{A.likes}, for that was what {A} [liked best|loved].]"},

{"carried",
    "(But|Meanwhile,|Before they could start,|But then|In the meantime) [a <small> "
    "<creature>|a strong wind|a <small> (puppy|kitten)] carried ({!x}{X} from "
    "{X.place} to {+X.place}|{!y}{Y} from {Y.place} to {+Y.place}|{!z}{Z} from "
    "{Z.place} to {+Z.place})[|, but nobody saw it|, and only {A} saw it]."},

{"search",
    "[|{S:BC} (looked|searched|peeped|dug) {+I.at}, but (in vain|nothing was there"
    "|found only <heap>|came back with empty hands). ]({!u}<seeker> {X.at}<find> "
    "{X}{X.owner=S}<joy>|{!v}<seeker> {Y.at}<find> {Y}{Y.owner=S}<joy>|{!w}<seeker> "
    "{Z.at}<find> {Z}{Z.owner=S}<joy>)"},

{"seeker",
    "[{S:BC}|The {S:BC.kind}] (went to look|looked around|dug a hole|climbed about"
    "|crept around|moved some <heap>|walked around <how>)"},

{"find", "[ and found| and came back with|, and there was]"},

{"joy",
    "[.|. `(Look|Hurray|Here it is|I have it|Mine)!` {S.he} <cried>.|, under some "
    "<heap>.|, to {S.his} great (joy|surprise|delight|relief).]"},

/* Two things are lost and two are found. */

{"finder",
    "(That spring|That summer|That autumn|That winter|In those days|One week) two "
    "neighbours were (unhappy|sad|upset|cross). {+C}, {+C.atrait} {+C.kind}, had "
    "lost {+X.a} {+X.noun}{X.owner=C}, and {+D}, {+D.atrait} {+D.kind}, had lost "
    "{+Y.a} {+Y.noun}{Y.owner=D}. `[We shall|Let us|We must] [look for them|find "
    "them],` said {S:AB}[ <how>|].<events>\nFirst they <went> to {+P}{R=P}. <doing> "
    "<discover><events> (Then|After that|In the afternoon|The next day) they <went> "
    "to {+Q}{R=Q}. <doing> <discover><events>\n(Before dark|On the way home|The same "
    "evening|Soon after) they went to see the neighbours. (<give X><fuss> <give Y>"
    "|<give Y><fuss> <give X>)"},

{"discover",
    "[There|Suddenly {S:AB} stopped. There|Under some <heap>, there|Beside a <worn> "
    "<landmark>, there|{S:AB} moved some <heap>, and there] ({!u}lay {X.a} "
    "{X.noun}{X.at=R}{S=X.owner}|{!v}lay {Y.a} {Y.noun}{Y.at=R}{S=Y.owner})[| in the "
    "(grass|dust|mud|sun|shade)|, half hidden|, as if it had been waiting]. `(Whose "
    "is it|Who lost this|Whose can it be|What is this)?` asked {B}[ <how>|]. `[It "
    "belongs to {S}|It must be the one that {S} lost|The {S.kind} lost it|That is "
    "{S}'s],` said {A}."},

{"give X",
    "[{C}|The {C.kind}] <rejoiced> when {C.he} (saw|got back|held|recognised) {X}. "
    "<where>`{X.At},` said {S:AB}[ <how>|]. <thanked>"},

{"give Y",
    "[{D}|The {D.kind}] <rejoiced> when {D.he} (saw|got back|held|recognised) {Y}. "
    "<where>`{Y.At},` said {S:AB}[ <how>|]. <thanked>"},

{"rejoiced",
    "(jumped for joy|wept for joy|laughed aloud|could hardly believe it|danced in a "
    "circle|was speechless|hugged them both|smiled from ear to ear|sang a <tune>"
    "|turned red|kissed a <creature>|threw <heap> into the air)"},

{"where", "`Where (did you find it|was it|has it been|did it go)?` "},

{"thanked",
    "`(Thank you|I thank you|How kind of you|Of course|I should have known|So far "
    "away|What luck|I must have dropped it there|I was there on Friday|How strange|I "
    "had given up hope|Let us have tea|I dreamed of this|Come in)!`"},

{NULL, NULL},
};
