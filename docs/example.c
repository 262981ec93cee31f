/* cc example.c $(pkg-config --cflags --libs weft) && ./a.out runs/book "Once upon" */
#include <stdio.h>
#include <string.h>
#include <weft.h>

static int print(void *user, const char *bytes, size_t len)
{
    fwrite(bytes, 1, len, user);
    return 0;
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "";
    float       nats[1024];
    double      sum = 0;
    weft_model *m = argc > 1 ? weft_model_open(argv[1]) : NULL;

    if (!m || weft_generate(m, prompt, strlen(prompt),
                            "{\"max_tokens\": 40, \"seed\": 5}", print, stdout)) {
        fprintf(stderr, "%s\n", m || argc > 1 ? weft_error() : "which run?");
        return 1;
    }
    long n = weft_score(m, prompt, strlen(prompt), nats, 1024);

    for (long i = 0; i < n && i < 1024; i++)
        sum += nats[i];
    printf("\n%ld tokens of the prompt: %.3f nats\n", n, sum);
    weft_model_close(m);
    return 0;
}
