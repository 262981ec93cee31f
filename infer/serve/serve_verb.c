/* weft serve: a run's model over HTTP. */
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "infer/serve/serve.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

static const double grace_seconds = 30;     // for what is under way when it ends

static const char help[] =
    "weft serve runs/book\n"
    "weft serve RUN [flags]\n"
    "\n"
    "Serves a model over HTTP in OpenAI's form, and a page to watch and try it. RUN\n"
    "is a run, whose newest checkpoint it follows while it trains, a checkpoint, or\n"
    "a directory of weft compare. Only this machine is answered unless --host says\n"
    "otherwise.\n"
    "\n"
    "  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \\\n"
    "    -d '{\"prompt\": \"Once upon a time\", \"max_tokens\": 50}'\n";

static void parse(struct cli *c, struct serve_options *o, int argc, char **argv)
{
    double            cache = (double)(o->cache >> 20);
    const struct flag flags[] = {
        {"host", 0, "ADDRESS", "listen there (127.0.0.1: this machine only)",
         .text = &o->host},
        {"port", 0, "N", "or the next that is free; 0: any (8080)", .number = &o->port,
         .max = 65535},
        {"api-key-file", 0, "FILE", "requests must bring the key in its first line",
         .text = &o->key_file},
        {"insecure", 0, NULL, "let other machines in without a key", .on = &o->insecure},
        {"slots", 0, "N", "texts written at once, of each model (16)",
         .number = &o->slots, .min = 1, .max = 16},
        {"queue", 0, "N", "texts that may wait; then the answer is 503 (256)",
         .number = &o->most_waiting, .min = 1, .max = 65536},
        {"cache", 0, "MIB", "memory for prompts seen before, of each model (256)",
         .real = &cache, .max = 1 << 20},
        {"chat-template", 0, "TEXT", "of each message, with {role} and {content}",
         .text = &o->chat_template},
        {"threads", 0, "N", "threads (all cores)", .number = &o->threads, .min = 1,
         .max = 1024},
        {0},
    };

    *c = (struct cli){.verb = "serve", .help = help, .flags = flags};
    cli_parse(c, argc, argv);
    c->flags = NULL;
    o->cache = (size_t)(cache * (1 << 20));
    if (c->n_args != 1)
        cli_die(c, FAIL_USAGE, "which run? weft serve RUN");
    o->path = c->args[0];
}

int serve_main(int argc, char **argv)
{
    const struct timespec moment = {.tv_nsec = 100000000};
    struct serve_options  o;
    struct server        *s;
    struct cli            c;
    struct why            why;
    enum fail             err;

    serve_defaults(&o);
    parse(&c, &o, argc, argv);
    signal(SIGPIPE, SIG_IGN);
    err = serve_start(&s, &o, &why);
    if (err)
        cli_fail(&c, err, &why);
    if (o.port && serve_port(s) != o.port)
        fprintf(stderr, "port %d is taken\n", o.port);
    printf("%s\n", serve_url(s));
    fflush(stdout);
    fprintf(stderr, "Ctrl-C ends it\n");
    catch_interrupts();
    while (!interrupted) {
        nanosleep(&moment, NULL);
        while (serve_refused(s, &why))
            say(stderr, "weft serve: %s\n", why.line);
    }
    serve_stop(s, grace_seconds);
    return 0;
}
