#include "data/stories/grammar.h"

/* How stories open, what happens between the scenes of a plot, and how they end.
 *
 * The opening always leaves A and B with name, kind, trait and favourite food, and H,
 * where A lives. Events use registers of their own (K M V), so they may come into any
 * plot. What may be left out (<events>, <fuss>) brings its own space.
 */

const struct rule story_rules[] = {

{"story", "<opening>\n<plot>\n<ending>"},

/* ---- openings ---- */

{"opening",
    "(<once>, there [was|lived] {+A.akind} [called|named] {+A}, who [lived|had "
        "always lived|lived all alone] <house>{+H}. <about A> <friend>"
    "|{+A} was {+A.atrait} {+A.kind}[| with <garb>]. {A.He} [lived|had always lived] "
        "<house>{+H} and [loved|liked|adored] {+A.likes}[| above all| very much| "
        "more than anything]. <friend>"
    "|{+H.Up} [lived|there lived|there once lived] two friends, {+A} and {+B}. {A} "
        "was {+A.atrait} {+A.kind}[| with <garb>], and {B} was {+B.atrait} {+B.kind}["
        "| with <garb>]. <tastes>"
    "|This is the story of {+A} and {+B}, who [lived|grew up|had a house|kept a "
        "shop] {+H}. {A}, {+A.akind}[| with <garb>], was {+A.trait}. {B}, {+B.akind}["
        "| with <garb>], was {+B.trait}. <tastes>"
    "|[Have you heard of {+A} the {+A.kind}?|Do you know the story of {+A} the "
        "{+A.kind}?|Let me tell you about {+A} the {+A.kind}.|Nobody knew {+A} the "
        "{+A.kind} better than I did.] {A} lived <house>{+H}[, and {A.he} was|. "
        "{A.He} was] [|very |known to be |usually ]{+A.trait}. {A.He} ate {+A.likes} "
        "[every day|at every meal|whenever {A.he} could|in every season]. <friend>"
    "|<one day> {+A} the {+A.kind} [sat|was sitting] (at the window|on the doorstep"
        "|by the fire|in the sun|at the table|on the roof|in a boat|on a cushion) "
        "[eating|with a bowl of|and had some] {+A.likes}. {A} was [|very |rather "
        "|always ]{+A.trait}, and {A.he} lived <house>{+H}. <friend>)"},

{"once",
    "[Once upon a time|Once|Long ago|Many years ago|A long time ago|In a faraway "
    "country|When the world was young|In my grandmother's time|Before there were "
    "trains]"},

{"house",
    "["
    "|in a (small|cosy|crooked|tall|narrow|green|tidy|stone|round|yellow|draughty"
        "|leaning|thatched|windy|spotless|busy|brick|blue|creaky|borrowed) (house"
        "|cottage|hut|cabin|tower|houseboat|shed|mill|caravan|tent) ]"},

{"garb",
    "(long ears|short legs|a squeaky voice|bright eyes|a loud laugh|big feet|a bushy "
    "tail|muddy boots|a straw hat|round glasses|a woollen scarf|a patched coat|a "
    "good memory|a soft heart|many sisters|no brothers|a brass whistle|cold toes|a "
    "bad cough|freckles|a walking stick|one white ear|a velvet cap|a large family|a "
    "big appetite|a bicycle|a bow tie|a crooked smile|a deep voice|a fine moustache"
    "|a gold tooth|a kind word for everyone|a lazy eye|a leather bag|a limp|a love "
    "of trains|a pocket watch|a quick temper|a red nose|a secret|a silk handkerchief"
    "|a terrible singing voice|a toothache|green gloves|new shoes|strong arms|untidy "
    "hair|wet feet)"},

{"about A",
    "[{A.He} was [|very |rather |quite |always ]{+A.trait} and [loved|liked|adored] "
        "{+A.likes}[| more than anything| above all| very much| best of all]."
    "|Everyone [knew|said|agreed] that {A} was {+A.trait}. {A.His} favourite [food"
        "|treat|supper|breakfast] was {+A.likes}."
    "|What {A} [loved|liked] [most|best] was {+A.likes}, and {A.he} was [known to be"
        "|always|often|never anything but] {+A.trait}."
    "|{A} was so {+A.trait} that (even the birds|the whole village|the neighbours"
        "|the newspapers|the grown-ups|all the children) talked about it, and [nobody"
        "|no one] [ate|wanted|liked] more {+A.likes}.]"},

{"friend",
    "[{A.His} [best|dearest|oldest|closest|only] friend was {+B}, {+B.atrait} "
        "{+B.kind} who <craved> {+B.likes}."
    "|(Next door|Across the road|Not far away|Over the hill|Around the corner"
        "|Upstairs|By the brook|In a barrel nearby) lived {+B}, {+B.atrait} "
        "{+B.kind} who <craved> {+B.likes}. [The two were|They were|{A} and {B} "
        "were] [always together|the best of friends|good friends|almost never apart]."
    "|{A} had a friend [called|named] {+B}. {B} was {+B.atrait} {+B.kind}[| with "
        "<garb>], and {B.his} favourite [food|treat|supper|breakfast] was {+B.likes}."
    "|[Every day|Often|Most days|After breakfast|On Sundays] {A} (played|walked"
        "|talked|fished|sang|worked|danced|gardened) with {+B}, {+B.atrait} "
        "{+B.kind} who <craved> {+B.likes}.]"},

{"craved",
    "(loved|liked nothing better than|could never get enough of|always asked for"
    "|dreamed of|was famous for loving|would do anything for|wrote poems about|lived "
    "on|always carried|asked everyone for|often talked of|could not resist|sold|grew "
    "up on)"},

{"tastes",
    "[{A} [loved|liked|wanted] {+A.likes}, [but|and|while] {B} [liked {+B.likes} "
        "better|could not live without {+B.likes}|[chose|preferred] {+B.likes}]."
    "|For [breakfast|supper|lunch] {A} always had {+A.likes}, and {B} always had "
        "{+B.likes}."
    "|If you gave {A} some {+A.likes} and {B} some {+B.likes}, they were (happy"
        "|content|quiet|polite|cheerful|silent) for [an hour|a whole day|a week].]"},

{"one day",
    "[One <weather> [morning|day|afternoon|evening]|One [morning|day|afternoon"
    "|evening]|Early one <weather> morning|Late one [summer|autumn|winter|spring] "
    "[day|afternoon]|On the (first|second|third|last) day of (spring|summer|autumn"
    "|winter|May|June|October|March)],"},

{"weather",
    "(warm|cold|bright|windy|grey|misty|quiet|frosty|golden|lazy|rainy|sultry|stormy"
    "|mild|cloudless|chilly|dusty|sleepy|breezy|drizzly|foggy|snowy|sunny|dull"
    "|blustery|clear|crisp|damp|freezing|gentle|glorious|hazy|hot|icy|lovely|muddy"
    "|ordinary|peaceful|pleasant|silent|slow|still|thundery|wet|wonderful)"},

/* ---- between the scenes ---- */

{"went",
    "(went|walked|wandered|hurried|strolled|ran|hiked|marched|raced|trotted|made "
    "their way|tiptoed|skipped|plodded|danced|rode)"},

{"went alone",
    "(went|walked|wandered|hurried|strolled|ran|marched|raced|trotted|cycled|rushed"
    "|limped|skipped|galloped|slipped away|plodded)"},

{"cried",
    "(cried|said|called|shouted|whispered|exclaimed|gasped|laughed|yelled|murmured)"},

{"gasped",
    "(cried|gasped|shouted|exclaimed|groaned|whispered|moaned|said|wailed|called)"},

{"how",
    "(softly|bravely|slowly|happily|quickly|gently|cheerfully|sadly|proudly|quietly"
    "|loudly|politely|firmly|shyly|sleepily|merrily|kindly|thoughtfully|solemnly"
    "|eagerly|calmly|dreamily|breathlessly|wisely|with a smile|with a bow|with a sigh"
    "|with a wink|over tea|at once|absently|boldly|carefully|coolly|crossly|earnestly"
    "|fondly|gravely|hoarsely|in a whisper|joyfully|lazily|mildly|nervously|patiently"
    "|simply|sternly|tenderly|warmly|with a cough|with a grin|with a nod|with a shrug"
    "|without thinking)"},

{"to do",
    "(to play|to have a picnic|to watch the clouds|to build a fort|to look for <heap>"
    "|to fly paper birds|to practise a dance|to meet a cousin|to sell <heap>|to "
    "paint a <worn> <landmark>|to fetch <heap>|to talk about <many>)"},

{"small",
    "(lazy|plump|young|grumpy|lonely|bright|nervous|fat|tired|wet|busy|thin|fluffy"
    "|bold|cross|proud|restless|solemn|jolly|sulky|friendly|bored|dizzy|hoarse|famous"
    "|lost|silent|tame|tiny|wild|homesick|retired|cold|greedy|handsome|jealous|late"
    "|musical|mysterious|muddy|rich|poor|rude|sickly|silly|strong|vain|weary|clever "
    "little|timid|gloomy|dashing|drowsy|furry|graceful|hardworking|learned|newborn"
    "|penniless|ragged|stout|thirsty|worried)"},

{"creature",
    "(sparrow|beetle|robin|lizard|moth|ladybird|wasp|pigeon|newt|caterpillar|cricket"
    "|magpie|swallow|spider|bumblebee|weasel|finch|seagull|dragonfly|kingfisher|lark"
    "|woodpecker|bat|thrush|crab|pheasant|stork|snail|peacock|turkey|calf|lamb|turtle"
    "|starling|gnat|cockerel|blackbird|butterfly|cuckoo|cow|crane|crow|dove|goldfinch"
    "|falcon|firefly|foal|gander|glow-worm|grasshopper|hen|heron|jackdaw|lobster"
    "|marmot|nightingale|partridge|pelican|piglet|puffin|salamander|shrew|stag beetle"
    "|wagtail)"},

{"rested",
    "(sang|slept|sat|waited|hid|dozed|sulked|danced|shivered|dreamed|rested|stared) "
    "(under|behind|beside|near)"},

{"worn",
    "(broken|mossy|rusty|crumbling|tall|low|wooden|mighty|fallen|deserted|narrow"
    "|twisted|whitewashed|rotten|sunny|forgotten|blue|green|red|steep|half-painted"
    "|slippery|dripping|crowded|famous|dark|well-kept|leafless|bent|charming|creaking"
    "|dusty|freshly painted|grand|haunted|hidden|hollow|humble|leaning|lonely|long"
    "|magic|nameless|neat|pretty|private|quaint|royal|ruined|shabby|shady"
    "|snow-covered|sticky|sturdy|swaying|warm|white|wobbly|yellow|battered|chilly"
    "|floating|golden)"},

{"landmark",
    "(wagon|fence|wall|stump|bench|scarecrow|milestone|chimney|ladder|gatepost|plough"
    "|rowing boat|hedge|statue|beanpole|wheelbarrow|signpost|rosebush|henhouse"
    "|flagpole|windmill|staircase|sundial|trough|cottage|birdbath|bandstand|pigsty"
    "|telescope|lamp post|pear tree|woodpile|stile|balcony|barge|beehive|boulder"
    "|bramble|carriage|cart|clock tower|compost heap|doghouse|drawbridge|fig tree"
    "|footbridge|gooseberry bush|greenhouse door|haycart|hayloft|kiosk|letterbox|mast"
    "|palm tree|porch|puddle|railing|shed|sledge|swing|tent|tombola stand|tricycle"
    "|water pump)"},

{"many",
    "(sailors|mountains|potatoes|comets|castles|dragons|snails|trains|pirates|snowmen"
    "|kings|whales|mermaids|clouds|onions|giants|teacups|dentists|roses|cabbages"
    "|ghosts|holidays|volcanoes|mushrooms|cousins|robots|shadows|earthquakes"
    "|birthdays|Africa|sandcastles|witches|astronauts|beards|bridges|camels|chimney "
    "sweeps|clocks|crocodiles|detectives|dinosaurs|elves|fireworks|islands|knights"
    "|lighthouses|magnets|monsters|numbers|opera singers|parrots|poets|princesses"
    "|pyramids|railways|rivers|shipwrecks|spaceships|submarines|summer|thunder|tigers"
    "|umbrellas|winter)"},

{"heap",
    "(bricks|old newspapers|socks|planks|ropes|empty bottles|dry leaves|broken plates"
    "|baskets|moss|straw|crates|flower pots|pine needles|wool|firewood|nails|eggs"
    "|wild garlic|sawdust|gravel|postcards|blankets|reeds|apple cores|autumn leaves"
    "|bandages|bark|birch twigs|chalk|clover|coal|cotton|curtains|feathers|ferns"
    "|flour sacks|hay|ivy|jam jars|kelp|logs|nutshells|paint pots|paper bags|pebbles"
    "|petals|rags|rubber boots|sand|seashells|sheets|spare tyres|thistles|tiles|tin "
    "cans|towels|umbrellas|wallpaper|weeds|willow branches|wood shavings|wrapping "
    "paper|yarn)"},

{"tune",
    "(sad|slow|long|silly|brand-new|very old|cheerful|secret|beautiful|simple|soft"
    "|foreign) (song|tune|ballad|march|lullaby|waltz|hymn|polka)"},

{"smell",
    "(hay|smoke|lavender|fresh bread|wet leaves|salt|mint|roses|pine needles|rain|mud"
    "|cut grass|candle wax|leather|ripe apples|soap|coffee|seaweed|old books|tar"
    "|cloves|wet wool|lemons|dust|basil|burnt sugar|cedar|chalk|chocolate|coal"
    "|elderflower|fish|furniture polish|garlic|gravy|ink|jasmine|laundry|lilac|moss"
    "|mothballs|onions|oranges|paint|pepper|pipe tobacco|resin|rosemary|sawdust|shoe "
    "polish|strawberries|thyme|vanilla|violets|winter)"},

{"exclaimed",
    "(Hurray|Oh my|Goodness|Well, well|Look at that|How odd|Never mind|What a day|I "
    "am hungry|Let us go on|I feel cold|That tickles|It is a good day|My feet hurt"
    "|How funny|I have an idea|Wait for me|Listen|Mind the <landmark>|I can smell "
    "<smell>|I dreamed of <many>|I saw a <creature>|Once I was a pirate|Follow me|My "
    "uncle collects <heap>|A <creature> told me so|I am afraid of <many>|I would "
    "rather be a <creature>|Somebody stole the <worn> <landmark>|Beware of the "
    "<small> <creature>|Who needs <heap>|This smells of <smell>)"},

{"doing",
    "[{!a}There they (played|tried|talked about|invented a kind of) (tag|leapfrog"
        "|hide-and-seek|chess|blind man's buff|cards|skittles|football)."
    "|{!b}There they (rested|sat|lay|dozed) (for a while|in the shade|side by side"
        "|in the sun) and (watched|counted|talked about|drew) (the clouds|the birds"
        "|the boats|the ants|the bees|the shadows)."
    "|{!c}There {S:AB} (found|picked up|collected|dug up) {+V} {+K}{K.owner=S}."
    "|{!d}{S:AB} told a story about <many> and a <small> <creature>."
    "|{!e}They ate (bread and butter|sandwiches|boiled eggs|apples|cold soup|salad"
        "|crackers), though {S:AB} would rather have had {S.likes}."
    "|{!f}It was (quiet|cold|warm|crowded|lovely|muddy|foggy|noisy) there, and "
        "{S:AB} (whistled|yawned|shivered|smiled|hummed a <tune>|thought of <many>"
        "|leaned on a <landmark>)."
    "|A <small> <creature> sat on a <worn> <landmark>[| and watched them| and looked "
        "away].]"},

/* What may happen to anybody. */

{"fuss", "[<fuss about>[|<fuss about>]|]"},

{"fuss about",
    "[ [A|Nearby, a] <small> <creature> <rested> a <worn> <landmark>."
    "|{!q} The air smelled of <smell> and <smell>."
    "|{!s} It was (quiet|cold|warm|lovely|foggy|noisy|dark|windy), and a <small> "
        "<creature> sang a <tune>."
    "|{!t} Nobody (noticed|minded|heard|fed|liked) the <small> <creature> with "
        "<garb>."
    "|{!M} A <small> <creature> (painted|measured|visited|cleaned|sold|guarded) the "
        "<worn> <landmark>.]"},

/* What may happen to A and B when they are together. */

{"events", "[<event>[|<event>[|<event>]]|]"},

{"event",
    "[ [A|Nearby, a] <small> <creature> <rested> a <worn> <landmark>."
    "|{!N} `<exclaimed>!` <cried> {S:AB}[ <how>|]."
    "|{!g} [Soon|Just then|Suddenly|After a while] it [began|started] to [rain|snow"
        "|hail], so they (hid|waited|stood|sang) (under|behind|beside|near) a <worn> "
        "<landmark> until (it stopped|the sun came out|the sky was blue again)."
    "|{!h} {S:AB} had brought some {S.likes} and gave half to {O:AB}."
    "|{!i} `What would you like to eat?` asked {S:AB}. {O:AB} (laughed|smiled|did "
        "not have to think|answered <how>). `{O.Likes}, (of course|what else|as "
        "always|please)!`"
    "|{!j} {S:AB} (bumped|ran|walked|stumbled) into a <worn> <landmark> and (hurt "
        "{S.his} knee|tore {S.his} coat|lost a shoe), but the {O:AB.kind} (helped "
        "{S.him} up|comforted {S.him}|sang a <tune> until {S.he} laughed)."
    "|{!k} They [passed|met|saw] {+M.other}. `<exclaimed>!` <cried> {M}[ <how>|]."
    "|{!l} {S:AB}, who was {S.trait}, (said nothing|wanted to go on|laughed at that"
        "|had a question|walked in front|talked about <many>|hummed a <tune>)."
    "|{!m} `Who is that?` [asked|whispered] a <small> <creature>. `That is {S:AB}, "
        "the {S.kind} who loves {S.likes},` said a <small> <creature>."
    "|{!n} (Far away|Somewhere|In the distance) a (bell|dog|horn|cuckoo|train"
        "|donkey) could be heard. `<exclaimed>!` <cried> {S:AB}[ <how>|]."
    "|{?K.owner}{!o} {K.owner} (counted|showed|looked at|polished) the {K}. There "
        "were [still |]{V}[| of them]."
    "|{!p} A letter came for {A}. On it stood: {A} the {A.kind}, {H}. Inside was a "
        "picture of a <small> <creature>[| by a <landmark>]."
    "|{!q} The air smelled of <smell> and <smell>."
    "|{!r} {S:AB} sang a <tune> about <many>, and {O:AB} (clapped|joined in|covered "
        "{O.his} ears|danced)."
    "|{!P} They talked about <many>[, about <many>|] and about <many>."
    "|{!Q} {S:AB} (bought|sold|found|traded|wanted) some <heap>, and the {O:AB.kind} "
        "(helped|laughed|carried it all|looked on <how>)."
    "|{!R} {S:AB} (greeted|followed|drew|questioned|teased|thanked) a <small> "
        "<creature> <how>."
    "|{!O} {S:AB} (drew|carved|painted|described) a <small> <creature>, and the "
        "{O:AB.kind} (drew|carved|painted|described) a <worn> <landmark>.]"},

/* ---- endings ---- */

{"ending", "[<quiz> [|<quiz> [|<quiz> ]]|]<close>"},

{"quiz",
    "[{?X.at}{!A}[Where had {X} been?|Do you remember where {X} was?|Can you say "
        "where {X} had been?] [It had been|It was] {X.at}."
    "|{?X.owner}{!B}[And who|Who] had {X} (in the end|at last|now)? {X.owner} had it."
    "|{!C}[And what|What] did {S:AB} love [best|most]? [{S.Likes}.|{S.Likes}, of "
        "course.|It was {S.likes}.]"
    "|{!D}[And who|Who] was the {S:ABCD.kind}? [It was|That was] {S}."
    "|{!E}[And where|Where] did {A} live? {A.He} lived {H}."
    "|{?C}{!F}[And {C}|And what about {C}|Do you remember {C}]? {C.He} was the "
        "{C.trait} {C.kind}."
    "|{?W}{!G}[And the|What was the] secret word? It was {W}."
    "|{?J}{!H}When did {A} keep {A.his} promise? When {J.other}."
    "|{?T}{!I}[And on|On] which day [was that|did it happen]? It was [on |]{T}."
    "|{?Y.owner}{!J}[And who|Who] had {Y} (in the end|at last|now)? {Y.owner} had it."
    "|{?K.owner}{!K}[And who|Who] had the {V} {K}? {K.owner} had them."
    "|{?D}{!L}[And|Do you remember] {D}? {D.He} was the {D.trait} {D.kind}.]"},

{"close",
    "(<that night>"
    "|[The end|That is all|And that was that|This is where the story ends]."
    "|[And so|So] they lived (happily|in peace|as friends|quietly) (ever after|for "
        "many years|until they were old) {H}."
    "|(From then on|After that day|Ever since), (people|everybody|all the neighbours"
        "|even the <small> <creature>) (spoke|talked|sang|dreamed) of {A} the "
        "{A.kind} and {B} the {B.kind}.)"},

{"that night",
    "(That night|When the stars came out|At bedtime|In bed), {A} (dreamed of|thought "
    "of|wrote in {A.his} diary about|sang a <tune> about) ({A.likes}|{B} and "
    "{B.likes}|{A.his} friend the {B.kind}|<many>)."},

{NULL, NULL},
};
