/* The files of serve/page, which are compiled in: page.inc has one C string each. */
#include "infer/serve/http.h"

#include <string.h>

static const struct file_in {
    const char *name, *text;
    size_t      size;               // with the NUL at its end
} files[] = {
#include "infer/serve/page.inc"
};

static const struct {
    const char *suffix, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"}, {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"}, {".svg", "image/svg+xml"},
    {".json", "application/json"}, {".txt", "text/plain; charset=utf-8"},
};

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (!strcmp(dot, types[i].suffix))
            return types[i].type;
    return "application/octet-stream";
}

const char *page_file(const char *url, size_t *len, const char **type)
{
    const char *name = strcmp(url, "/") ? url + 1 : "index.html";

    for (size_t i = 0; *url == '/' && i < sizeof files / sizeof *files; i++)
        if (!strcmp(files[i].name, name)) {
            *len = files[i].size - 1;
            *type = type_of(name);
            return files[i].text;
        }
    return NULL;
}
