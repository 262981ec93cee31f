#include "data/stories/words.h"

#include <ctype.h>
#include <string.h>

/* Within a class the first words are the most frequent; see share() in stories.c. */

#define W(text) {text, NULL}

static const struct word names[] = {
    {"Mia", "she"}, {"Tom", "he"}, {"Nora", "she"}, {"Ben", "he"}, {"Lily", "she"},
    {"Finn", "he"}, {"Hazel", "she"}, {"Max", "he"}, {"Ruby", "she"}, {"Oscar", "he"},
    {"Ella", "she"}, {"Hugo", "he"}, {"Ivy", "she"}, {"Leo", "he"}, {"Clara", "she"},
    {"Sam", "he"}, {"Wren", "she"}, {"Milo", "he"}, {"Daisy", "she"}, {"Jack", "he"},
    {"Tilly", "she"}, {"Theo", "he"}, {"Poppy", "she"}, {"Arlo", "he"}, {"Rosa", "she"},
    {"Bruno", "he"}, {"Fern", "she"}, {"Felix", "he"}, {"Luna", "she"}, {"Henry", "he"},
    {"Zoe", "she"}, {"Ned", "he"}, {"Greta", "she"}, {"Pip", "he"}, {"Maud", "she"},
    {"Toby", "he"}, {"Bonnie", "she"}, {"Wilf", "he"}, {"Suki", "she"},
    {"Jasper", "he"}, {"Juno", "she"}, {"Kofi", "he"}, {"Olive", "she"}, {"Emil", "he"},
    {"Pearl", "she"}, {"Ravi", "he"}, {"Dot", "she"}, {"Rowan", "he"}, {"Anya", "she"},
    {"Albie", "he"}, {"Edith", "she"}, {"Ezra", "he"}, {"Freya", "she"}, {"Dov", "he"},
    {"Hanna", "she"}, {"Barnaby", "he"}, {"Ingrid", "she"}, {"Casper", "he"},
    {"Kiki", "she"}, {"Gil", "he"}, {"Alma", "she"}, {"Ludo", "he"}, {"Vera", "she"},
    {"Otto", "he"},
};

static const struct word kinds[] = {
    W("fox"), W("rabbit"), W("bear"), W("mouse"), W("hedgehog"), W("squirrel"),
    W("badger"), W("otter"), W("duck"), W("frog"), W("goat"), W("cat"), W("mole"),
    W("beaver"), W("goose"), W("dog"), W("pony"), W("raccoon"), W("sheep"), W("owl"),
    W("hare"), W("pig"), W("donkey"), W("tortoise"), W("child"), W("hamster"),
    W("wolf"), W("elephant"), W("penguin"), W("monkey"), W("llama"), W("ferret"),
    W("dormouse"), W("parrot"), W("panda"), W("camel"), W("walrus"), W("koala"),
    W("zebra"), W("crocodile"), W("giraffe"), W("ostrich"), W("seal"), W("reindeer"),
};

static const struct word traits[] = {
    W("brave"), W("shy"), W("clever"), W("curious"), W("gentle"), W("merry"),
    W("patient"), W("sleepy"), W("careful"), W("quick"), W("quiet"), W("cheerful"),
    W("stubborn"), W("kind"), W("dreamy"), W("polite"), W("noisy"), W("loyal"),
    W("tidy"), W("wise"), W("forgetful"), W("hungry"), W("playful"), W("serious"),
    W("modest"), W("lazy"), W("fearless"), W("chatty"), W("thrifty"), W("elegant"),
    W("impatient"), W("moody"), W("generous"), W("adventurous"), W("clumsy"), W("nosy"),
};

static const struct word foods[] = {
    W("plums"), W("honey"), W("walnuts"), W("pancakes"), W("blackberries"), W("toast"),
    W("apple pie"), W("carrot soup"), W("ginger biscuits"), W("cherries"), W("raisins"),
    W("pumpkin bread"), W("peppermint tea"), W("corn cakes"), W("chestnuts"),
    W("strawberry jam"), W("cheese"), W("lemon cake"), W("porridge"), W("oat cookies"),
    W("pears"), W("hot cocoa"), W("dumplings"), W("mushroom stew"),
    W("sunflower seeds"), W("rice pudding"), W("noodles"), W("peaches"),
    W("turnip soup"), W("almond buns"), W("figs"), W("cinnamon rolls"), W("radishes"),
    W("butter beans"), W("cranberry juice"), W("waffles"), W("pea soup"), W("grapes"),
    W("rhubarb tart"), W("pickles"), W("melon"), W("barley broth"), W("macaroons"),
    W("popcorn"), W("baked potatoes"), W("tomato salad"), W("muffins"), W("custard"),
    W("dates"), W("lentils"), W("marmalade"), W("gingerbread"),
};

static const struct word nouns[] = {
    W("kite"), W("ball"), W("lantern"), W("hat"), W("scarf"), W("drum"), W("bell"),
    W("book"), W("basket"), W("flute"), W("umbrella"), W("whistle"), W("cup"), W("key"),
    W("box"), W("spoon"), W("button"), W("blanket"), W("marble"), W("feather"),
    W("ribbon"), W("mirror"), W("bucket"), W("clock"), W("puppet"), W("mitten"),
    W("kettle"), W("pencil"), W("map"), W("teapot"), W("candle"), W("brush"), W("comb"),
    W("coin"), W("jar"), W("fiddle"), W("pillow"), W("stamp"), W("purse"), W("trumpet"),
    W("shell"), W("hammer"), W("bracelet"), W("slipper"), W("notebook"), W("compass"),
    W("thimble"), W("horseshoe"), W("vase"), W("hourglass"), W("stool"), W("necklace"),
};

static const struct word adjectives[] = {
    W("red"), W("blue"), W("green"), W("yellow"), W("old"), W("silver"), W("tiny"),
    W("purple"), W("orange"), W("golden"), W("striped"), W("shiny"), W("white"),
    W("black"), W("brown"), W("pink"), W("spotted"), W("painted"), W("grey"),
    W("crooked"), W("enormous"), W("dusty"), W("ugly"), W("speckled"), W("heavy"),
    W("scratched"), W("violet"), W("plain"), W("dented"), W("precious"), W("odd"),
    W("glittering"), W("turquoise"), W("folding"), W("copper"), W("rattling"),
};

static const struct word places[] = {
    {"the barn", "in"}, {"the garden", "in"}, {"the river", "by"},
    {"the old oak", "under"}, {"the mill", "behind"}, {"the pond", "by"},
    {"the market", "at"}, {"the bridge", "on"}, {"the orchard", "in"},
    {"the meadow", "in"}, {"the well", "by"}, {"the dairy", "in"}, {"the forge", "at"},
    {"the cave", "in"}, {"the boathouse", "in"}, {"the willow", "under"},
    {"the bakery", "at"}, {"the library", "in"}, {"the tower", "in"},
    {"the beach", "on"}, {"the forest", "in"}, {"the school", "behind"},
    {"the greenhouse", "in"}, {"the fountain", "by"}, {"the station", "at"},
    {"the stable", "in"}, {"the haystack", "behind"}, {"the crossroads", "at"},
    {"the chapel", "in"}, {"the tree house", "in"}, {"the beehives", "by"},
    {"the waterfall", "by"}, {"the lighthouse", "at"}, {"the vineyard", "in"},
    {"the quarry", "at"}, {"the woodshed", "behind"}, {"the theatre", "in"},
    {"the museum", "in"}, {"the pier", "on"}, {"the town hall", "at"},
    {"the ruins", "in"}, {"the playground", "on"}, {"the post office", "at"},
    {"the rose garden", "in"}, {"the swamp", "by"}, {"the inn", "at"},
    {"the dunes", "in"}, {"the lock", "by"}, {"the sawmill", "at"},
    {"the bus stop", "at"}, {"the hot springs", "by"}, {"the cherry tree", "under"},
};

static const struct word spots[] = {
    W("under a flat stone"), W("in a basket"), W("behind a barrel"),
    W("under a pile of leaves"), W("inside an old boot"), W("under a bucket"),
    W("in a clay pot"), W("behind a big rock"), W("under a loose plank"),
    W("in a wooden crate"), W("under an empty sack"), W("beside a ladder"),
    W("in a tin box"), W("between two bricks"), W("on top of a post"),
    W("inside a hollow log"), W("under a rug"), W("behind a curtain"),
    W("in a paper bag"), W("beside a pump"), W("inside a drain pipe"), W("in a nest"),
    W("under a wheelbarrow"), W("on a high shelf"), W("behind a poster"),
    W("among the nettles"), W("in a flower bed"), W("on a rusty hook"),
};

static const struct word homes[] = {
    W("at the edge of the wood"), W("near the sea"), W("at the foot of the mountain"),
    W("on the green hill"), W("at the end of the lane"), W("in the valley"),
    W("beside the canal"), W("near the harbour"), W("among the tall pines"),
    W("on a small farm"), W("beyond the wheat fields"), W("next to the church"),
    W("in the middle of the village"), W("under the cliffs"), W("between two lakes"),
    W("far up in the north"), W("on the sunny side of the street"),
    W("deep in the moor"), W("above the bookshop"), W("on an island"),
    W("close to the railway"), W("behind the castle"), W("opposite the park"),
    W("in the old town"),
};

static const struct word skills[] = {
    W("whistle"), W("swim"), W("climb trees"), W("skip stones"), W("play the flute"),
    W("bake bread"), W("tie a good knot"), W("draw birds"), W("row a boat"),
    W("dance the polka"), W("read the stars"), W("juggle"), W("ride a bicycle"),
    W("knit a sock"), W("sing the old song"), W("make paper boats"),
    W("walk on stilts"), W("fold a swan"), W("light a fire"), W("count to a hundred"),
    W("speak French"), W("fly a kite"), W("stand on one leg"), W("tell the time"),
    W("mend a shoe"), W("play chess"),
};

static const struct word whens[] = {
    {"when the snow melts", "the snow melted"},
    {"when the apples are ripe", "the apples were ripe"},
    {"when the moon is full", "the moon was full"},
    {"when the swallows come back", "the swallows came back"},
    {"when the leaves turn gold", "the leaves turned gold"},
    {"when the harvest is done", "the harvest was done"},
    {"when the roses bloom", "the roses bloomed"},
    {"when the pond freezes", "the pond froze"},
    {"when the fair comes to town", "the fair came to town"},
    {"when the lambs are born", "the lambs were born"},
    {"when the days grow long", "the days grew long"},
    {"when the first star falls", "the first star fell"},
    {"when the storks fly south", "the storks flew south"},
    {"when the ferry runs again", "the ferry ran again"},
    {"when the school closes", "the school closed"},
    {"when the rain stops", "the rain stopped"},
    {"when the bridge is mended", "the bridge was mended"},
    {"when the first snow falls", "the first snow fell"},
    {"when the tulips come up", "the tulips came up"},
    {"when the wind turns", "the wind turned"},
};

static const struct word days[] = {
    W("Saturday"), W("Sunday"), W("Monday"), W("Friday"), W("Wednesday"), W("Thursday"),
    W("Tuesday"),
};

static const struct word secrets[] = {
    W("Marigold"), W("Pumpkin"), W("Thunder"), W("Buttercup"), W("Moonbeam"),
    W("Pepper"), W("Thistle"), W("Bumblebee"), W("Snowdrop"), W("Cinnamon"),
    W("Teaspoon"), W("Rainbow"), W("Gooseberry"), W("Compass"), W("Velvet"),
    W("Lavender"), W("Icicle"), W("Dandelion"), W("Harmony"), W("Umbrella"),
    W("Parsnip"), W("Lullaby"), W("Nutmeg"), W("Zigzag"), W("Windmill"), W("Feather"),
    W("Cucumber"), W("Hopscotch"), W("Limerick"), W("Emerald"), W("Jellyfish"),
    W("Yesterday"),
};

static const struct word numbers[] = {
    W("three"), W("five"), W("seven"), W("two"), W("four"), W("six"), W("nine"),
    W("twelve"), W("eight"), W("ten"), W("eleven"), W("twenty"), W("fifteen"),
    W("thirteen"),
};

static const struct word counted[] = {
    W("shells"), W("acorns"), W("pebbles"), W("white feathers"), W("glass beads"),
    W("buttons"), W("pine cones"), W("copper coins"), W("snail shells"), W("marbles"),
    W("dry beans"), W("daisies"), W("blue stones"), W("corks"), W("hairpins"),
    W("postage stamps"), W("old keys"), W("ribbons"), W("clay pipes"), W("tickets"),
};

static const struct word helpers[] = {
    {"the heron", "a tall heron"}, {"the baker", "the baker with his cart"},
    {"the miller", "the old miller"}, {"the toad", "a wise toad"},
    {"the postman", "the village postman"}, {"the tinker", "a travelling tinker"},
    {"the raven", "an old raven"}, {"the fisherman", "a silent fisherman"},
    {"the shepherd", "a young shepherd"},
    {"the gardener", "the gardener in her straw hat"},
    {"the sailor", "a retired sailor"}, {"the beekeeper", "the beekeeper in his veil"},
    {"the swan", "a proud swan"}, {"the piper", "a cheerful piper"},
    {"the weaver", "a weaver with grey hair"}, {"the doctor", "the country doctor"},
    {"the juggler", "a hungry juggler"}, {"the clown", "a clown on his day off"},
    {"the teacher", "a teacher of geography"},
    {"the queen", "a queen in plain clothes"}, {"the woodcutter", "a tired woodcutter"},
    {"the ferryman", "the ferryman"},
};

static const struct word sights[] = {
    W("the glass castle"), W("the singing spring"), W("the hidden lake"),
    W("the stone giant"), W("the lemon trees"), W("the dancing lights"),
    W("the great balloon"), W("the snow gardens"), W("the clock museum"),
    W("the butterfly hall"), W("the queen of the bees"), W("the whispering rocks"),
    W("the red windmill"), W("the sleeping whale"), W("the tallest tree"),
    W("the moon festival"), W("the golden carousel"), W("the upside-down house"),
    W("the echo valley"), W("the blue flamingos"), W("the chocolate factory"),
    W("the ice cathedral"), W("the floating market"), W("the giant pumpkin"),
};

#define CLASS(label, words) {label, words, sizeof words / sizeof *words}

const struct class story_classes[N_CLASSES] = {
    [NAME]      = CLASS("a name", names),
    [KIND]      = CLASS("an animal", kinds),
    [TRAIT]     = CLASS("a trait", traits),
    [FOOD]      = CLASS("something to eat", foods),
    [NOUN]      = CLASS("a thing", nouns),
    [ADJECTIVE] = CLASS("how a thing looks", adjectives),
    [PLACE]     = CLASS("a place", places),
    [SPOT]      = CLASS("where exactly it is", spots),
    [HOME]      = CLASS("where they live", homes),
    [SKILL]     = CLASS("a skill", skills),
    [WHEN]      = CLASS("when it will be", whens),
    [DAY]       = CLASS("a day of the week", days),
    [SECRET]    = CLASS("a secret word", secrets),
    [NUMBER]    = CLASS("a number", numbers),
    [COUNTED]   = CLASS("things to count", counted),
    [HELPER]    = CLASS("somebody they meet", helpers),
    [SIGHT]     = CLASS("a sight", sights),
};

static const struct form person[] = {
    {"",       MAIN,   NAME,  PLAIN,       NULL},
    {"he",     MAIN,   NAME,  HE,          "%s is %s, not %s"},
    {"him",    MAIN,   NAME,  HIM,         "%s is %s, not %s"},
    {"his",    MAIN,   NAME,  HIS,         "%s is %s, not %s"},
    {"self",   MAIN,   NAME,  SELF,        "%s is %s, not %s"},
    {"He",     MAIN,   NAME,  CAPITAL_HE,  "%s is %s, not %s"},
    {"His",    MAIN,   NAME,  CAPITAL_HIS, "%s is %s, not %s"},
    {"kind",   MANNER, KIND,  PLAIN,       "%s is the %s, not the %s"},
    {"akind",  MANNER, KIND,  ARTICLE,     "%s is %s, not %s"},
    {"trait",  THIRD,  TRAIT, PLAIN,       "%s is %s, not %s"},
    {"atrait", THIRD,  TRAIT, ARTICLE,     "%s is %s one, not %s one"},
    {"likes",  LAST,   FOOD,  PLAIN,       "%s loves %s, not %s"},
    {"Likes",  LAST,   FOOD,  CAPITAL,     "%s loves %s, not %s"},
    {NULL, 0, 0, 0, NULL},
};

static const struct form thing[] = {
    {"",      MAIN,    NOUN,      WHOLE,         NULL},
    {"The",   MAIN,    NOUN,      CAPITAL_WHOLE, NULL},
    {"noun",  MAIN,    NOUN,      PLAIN,         NULL},
    {"adj",   MANNER,  ADJECTIVE, PLAIN,         "%s is %s, not %s"},
    {"a",     MANNER,  ADJECTIVE, ARTICLE,       "%s is %s one, not %s one"},
    {"at",    THIRD,   PLACE,     LOCATED,       "%s is %s, not %s"},
    {"At",    THIRD,   PLACE,     CAPITAL,       "%s is %s, not %s"},
    {"place", THIRD,   PLACE,     PLAIN,         "the place of %s is %s, not %s"},
    {"owner", LAST,    LETTER,    NAMED,         "%s is with %s, not with %s"},
    {"spot",  SPOTTED, SPOT,      PLAIN,         "%s is %s, not %s"},
    {NULL, 0, 0, 0, NULL},
};

static const struct form place[] = {
    {"",   MAIN, PLACE, PLAIN,   NULL},
    {"at", MAIN, PLACE, LOCATED, NULL},
    {"At", MAIN, PLACE, CAPITAL, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define SIMPLE(name, class) \
    static const struct form name[] = { \
        {"",      MAIN, class,  PLAIN,   NULL}, \
        {"Up",    MAIN, class,  CAPITAL, NULL}, \
        {"other", MAIN, class,  OTHER,   NULL}, \
        {"owner", LAST, LETTER, NAMED,   "%s are with %s, not with %s"}, \
        {NULL, 0, 0, 0, NULL}, \
    }

SIMPLE(sight, SIGHT);
SIMPLE(food, FOOD);
SIMPLE(home, HOME);
SIMPLE(when, WHEN);
SIMPLE(many, COUNTED);
SIMPLE(skill, SKILL);
SIMPLE(helper, HELPER);
SIMPLE(number, NUMBER);
SIMPLE(day, DAY);
SIMPLE(secret, SECRET);

static const struct form *const registers[26] = {
    ['A' - 'A'] = person, ['B' - 'A'] = person, ['C' - 'A'] = person,
    ['D' - 'A'] = person, ['S' - 'A'] = person, ['O' - 'A'] = person,
    ['U' - 'A'] = person,
    ['X' - 'A'] = thing,  ['Y' - 'A'] = thing,  ['Z' - 'A'] = thing,
    ['P' - 'A'] = place,  ['Q' - 'A'] = place,  ['R' - 'A'] = place,  ['I' - 'A'] = place,
    ['E' - 'A'] = sight,  ['F' - 'A'] = food,   ['G' - 'A'] = food,   ['H' - 'A'] = home,
    ['J' - 'A'] = when,   ['K' - 'A'] = many,   ['L' - 'A'] = skill,
    ['M' - 'A'] = helper,
    ['N' - 'A'] = number, ['V' - 'A'] = number, ['T' - 'A'] = day,
    ['W' - 'A'] = secret,
};

const struct form *story_form(char letter, const char *name, size_t n)
{
    const struct form *f = letter >= 'A' && letter <= 'Z' ? registers[letter - 'A']
                                                          : NULL;

    for (; f && f->name; f++)
        if (!strncmp(f->name, name, n) && !f->name[n])
            return f;
    return NULL;
}

char story_alias(const struct world *w, char letter)
{
    if (letter != 'S' && letter != 'O' && letter != 'U')
        return letter;
    int behind = w->cell[letter - 'A'][MAIN];

    return behind < 0 ? 0 : (char)('A' + behind);
}

static int join(char *buf, const char *a, const char *b, const char *c)
{
    char *end = stpcpy(stpcpy(stpcpy(buf, a), b), c);

    return (int)(end - buf);
}

static int capital(char *buf, int n)
{
    buf[0] = (char)toupper((unsigned char)buf[0]);
    return n;
}

/* he, him, his, himself, He, His, by the style. */
static int pronoun(const char *gender, enum style style, char *buf)
{
    static const char *const table[2][6] = {
        {"he", "him", "his", "himself", "He", "His"},
        {"she", "her", "her", "herself", "She", "Her"},
    };

    return join(buf, table[gender[0] == 's'][style - HE], "", "");
}

int story_word(const struct world *w, char letter, const struct form *f, int v, char *buf)
{
    char who = story_alias(w, letter);

    if (!who || v < 0)
        return 0;
    if (f->style == NAMED) {
        int name = w->cell[v][MAIN];

        return name < 0 ? 0 : join(buf, names[name].text, "", "");
    }
    const struct word *word = &story_classes[f->class].words[v];
    int                manner = w->cell[who - 'A'][MANNER];

    switch (f->style) {
    case PLAIN:
        return join(buf, word->text, "", "");
    case CAPITAL:
        if (f->class == PLACE)
            return capital(buf, join(buf, word->other, " ", word->text));
        return capital(buf, join(buf, word->text, "", ""));
    case ARTICLE:
        return join(buf, strchr("aeiou", word->text[0]) ? "an " : "a ", word->text, "");
    case OTHER:
        return join(buf, word->other, "", "");
    case LOCATED:
        return join(buf, word->other, " ", word->text);
    case WHOLE:
    case CAPITAL_WHOLE:
        if (manner < 0)
            return 0;
        int n = join(buf, f->style == WHOLE ? "the " : "The ", adjectives[manner].text,
                     " ");
        return n + join(buf + n, word->text, "", "");
    default:
        return pronoun(word->other, f->style, buf);
    }
}
