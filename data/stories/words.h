/* The words of the stories and the cells that remember them.
 *
 * A cell is a (register, attribute) pair. Registers are letters: characters A B C D,
 * things X Y Z, places P Q R I, and single words. A cell holds the index of a word in its
 * class, or, for `owner` and the aliases S O U, the letter of a character.
 */
#ifndef WEFT_WORDS_H
#define WEFT_WORDS_H

#include <stddef.h>
#include <stdint.h>

struct word {
    const char *text;
    const char *other;      // its second form; see enum form
};

enum class_id {
    NAME, KIND, TRAIT, FOOD, NOUN, ADJECTIVE, PLACE, SPOT, HOME, SKILL, WHEN, DAY, SECRET,
    NUMBER, COUNTED, HELPER, SIGHT, N_CLASSES, LETTER = N_CLASSES
};

struct class {
    const char        *label;       // "a place"
    const struct word *words;
    int                n;           // at most 64; no text is the beginning of another
};

extern const struct class story_classes[N_CLASSES];

/* How the word in a cell is written. */
enum style {
    PLAIN,          // its text
    CAPITAL,        // its text with a capital letter
    ARTICLE,        // "a fox", "an otter"
    OTHER,          // its second form: the past of a WHEN, "an old owl" of a HELPER
    LOCATED,        // a place with its preposition: "in the barn"
    WHOLE,          // a thing: "the red kite"
    CAPITAL_WHOLE,
    HE, HIM, HIS, SELF, CAPITAL_HE, CAPITAL_HIS,
    NAMED,          // the name of the character whose letter the cell holds
};

enum attribute {
    MAIN,           // name, noun, place, word
    MANNER,         // kind of a character, adjective of a thing
    THIRD,          // trait of a character, place of a thing
    LAST,           // favourite food of a character, owner of a thing
    SPOTTED,        // where exactly a thing is
    N_ATTRIBUTES
};

/* {A.likes}: which attribute of the register and how it is written. */
struct form {
    const char    *name;
    enum attribute attribute;
    enum class_id  class;
    enum style     style;
    const char    *truth;   // "%s loves %s, not %s": of whom, right, wrong; or NULL
};

struct world {
    int8_t   cell[26][N_ATTRIBUTES];    // -1: nothing said yet
    uint64_t used[N_CLASSES];           // words that are taken
    uint64_t happened;                  // what may happen once, by letter
};

/* The form called name (n bytes) of a register, or NULL. */
const struct form *story_form(char letter, const char *name, size_t n);

/* Write word v of the form into buf, as register letter of the world has it. Returns its
 * length, 0 when a cell that it needs is empty. buf has STORY_WORD bytes. */
enum { STORY_WORD = 64 };
int story_word(const struct world *w, char letter, const struct form *f, int v,
               char *buf);

/* The letter behind an alias (S O U), or the letter itself; 0 when the alias is unset. */
char story_alias(const struct world *w, char letter);

#endif
