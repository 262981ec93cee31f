#include "data/stories/grammar.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 16384, MAX_TEXT = 65536, MAX_RULES = 256 };

static struct {
    struct node        nodes[MAX_NODES];
    int                n;
    char               text[MAX_TEXT];      // the fixed text, quotes in place
    size_t             used;
    const struct rule *rules[MAX_RULES];
    int                start[MAX_RULES], n_rules;
    char               error[120];
} program;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct node *add(enum op op)
{
    static struct node spare;

    if (program.n == MAX_NODES) {
        snprintf(program.error, sizeof program.error, "the rules are too long");
        return &spare;
    }
    struct node *node = &program.nodes[program.n++];

    *node = (struct node){.op = op};
    return node;
}

static void complain(const char *p, const char *what)
{
    if (!program.error[0])
        snprintf(program.error, sizeof program.error, "%s: %.60s", what, p);
}

/* Fixed text up to the next mark. */
static const char *compile_text(const char *p)
{
    size_t       n = strcspn(p, "[](){}<>|");
    struct node *node = add(TEXT);

    if (n > MAX_TEXT - program.used) {
        complain(p, "too much text");
        return p + n;
    }
    node->text = program.text + program.used;
    node->n = (int)n;
    for (size_t i = 0; i < n; i++)
        program.text[program.used++] = p[i] == '`' ? '"' : p[i];
    return p + n;
}

/* A letter and its form: X.at. */
static const char *compile_cell(const char *p, char *letter, const struct form **form)
{
    const char *name = p + 1 + (p[1] == '.');
    size_t      n = p[1] == '.' ? strspn(name, "abcdefghijklmnopqrstuvwxyzAHLTU") : 0;

    *letter = *p;
    *form = story_form(*p, name, n);
    if (!*form)
        complain(p, "no such cell");
    return name + n;
}

static const char *compile_appoint(const char *p, struct node *node)
{
    const struct form *form;
    const char        *set = p + 2;
    size_t             n = strspn(set, "ABCD");
    char               name[16] = {p[0]}, letter;

    for (size_t i = 0; i < n; i++)
        node->n |= 1 << (set[i] - 'A');
    if (set[n] == '.')
        strncat(name, set + n, strcspn(set + n, "}") < 12 ? strcspn(set + n, "}") : 12);
    compile_cell(name, &letter, &form);
    node->op = APPOINT;
    node->letter = letter;
    node->form = form;
    return set + strcspn(set, "}");
}

static const char *compile_slot(const char *p)
{
    struct node *node = add(RECALL);

    p++;
    if (*p == '!') {
        node->op = ONCE;
        node->letter = p[1];
        p += 2;
    } else if (*p && p[1] == ':') {
        p = compile_appoint(p, node);
    } else {
        if (*p == '+' || *p == '?')
            node->op = *p++ == '+' ? LEARN : NEED;
        p = compile_cell(p, &node->letter, &node->form);
        if (*p == '=') {
            node->op = COPY;
            p = compile_cell(p + 1, &node->from, &node->from_form);
        }
    }
    if (*p != '}')
        complain(p, "a slot is not closed");
    return *p ? p + 1 : p;
}

/* The share of alternative i of a choice. */
static int share(char open, int i)
{
    static const int falling[] = {60, 48, 40, 34, 29, 25, 22, 19, 17, 15, 14};
    int              last = sizeof falling / sizeof *falling - 1;

    return open == '(' ? 1 : falling[i < last ? i : last];
}

/* How many alternatives the choice at p has. */
static int count_alternatives(const char *p)
{
    int n = 1;

    for (int depth = 0; *p; p++) {
        depth += (*p == '[' || *p == '(') - (*p == ']' || *p == ')');
        n += depth == 1 && *p == '|';
        if (!depth)
            break;
    }
    return n;
}

static const char *compile_sequence(const char *p);

static const char *compile_choice(const char *p)
{
    char open = *p;
    int  choice = program.n, n = count_alternatives(p);

    if (n > MAX_ALTERNATIVES)
        complain(p, "too many alternatives");
    add(CHOICE)->n = n;
    for (int i = 0; i < n; i++)
        add(ALTERNATIVE)->n = share(open, i);
    for (int i = 0; i < n && !program.error[0]; i++) {
        program.nodes[choice + 1 + i].to = program.n;
        p = compile_sequence(p + 1);
        add(GOTO)->text = "";
        program.nodes[program.n - 1].to = choice;
    }
    if (*p != (open == '(' ? ')' : ']'))
        complain(p, "a choice is not closed");
    for (int i = choice; i < program.n; i++)
        if (program.nodes[i].op == GOTO && program.nodes[i].to == choice)
            program.nodes[i].to = program.n;
    return *p ? p + 1 : p;
}

static const char *compile_sequence(const char *p)
{
    while (*p && !strchr("|])", *p) && !program.error[0]) {
        if (*p == '[' || *p == '(') {
            p = compile_choice(p);
        } else if (*p == '{') {
            p = compile_slot(p);
        } else if (*p == '<') {
            add(CALL)->text = p + 1;
            p += strcspn(p, ">") + 1;
        } else {
            p = compile_text(p);
        }
    }
    return p;
}

static void compile_rules(const struct rule *rules)
{
    for (; rules->name && program.n_rules < MAX_RULES && !program.error[0]; rules++) {
        program.rules[program.n_rules] = rules;
        program.start[program.n_rules++] = program.n;
        if (*compile_sequence(rules->body))
            complain(rules->body, "more brackets are closed than opened");
        add(END);
    }
}

/* Point the calls at the rules they name. */
static void link_calls(void)
{
    for (int i = 0; i < program.n; i++) {
        struct node *node = &program.nodes[i];
        size_t       n = node->op == CALL ? strcspn(node->text, ">") : 0;

        node->to = node->op == CALL ? -1 : node->to;
        for (int r = 0; node->op == CALL && r < program.n_rules; r++) {
            const char *name = program.rules[r]->name;

            if (!strncmp(name, node->text, n) && !name[n])
                node->to = program.start[r];
        }
        if (node->to < 0)
            complain(node->text, "no such rule");
    }
}

static void compile(void)
{
    compile_rules(story_rules);
    compile_rules(story_plots);
    link_calls();
}

const struct node *story_program(void)
{
    pthread_once(&once, compile);
    return program.error[0] ? NULL : program.nodes;
}

const char *story_program_error(void)
{
    story_program();
    return program.error;
}
