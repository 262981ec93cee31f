#include "tools/chart/document.h"

#include "tools/chart/chart.h"

#include <string.h>

static const char style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1f2328;--soft:#656d76;--rule:#d8dee4;--back:#fff;"
    "--card:#f6f8fa;--mark:#fff4d6}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;"
    "--rule:#30363d;--back:#0f1419;--card:#171d24;--mark:#33290f}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1180px;padding:2rem 1.2rem 4rem;color:var(--ink);"
    "background:var(--back);font:16px/1.55 system-ui,sans-serif}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.15rem;"
    "margin:2.6rem 0 .8rem}\n"
    ".sub,figcaption,.foot{color:var(--soft)}.sub{margin:0 0 1.4rem}\n"
    ".answer{background:var(--mark);border-radius:10px;padding:.9rem 1.2rem}\n"
    ".answer p{margin:.3rem 0}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.4rem .5rem;border-bottom:1px solid var(--rule);text-align:right;"
    "white-space:nowrap;vertical-align:baseline}\n"
    "th{color:var(--soft);font-weight:500;white-space:normal;vertical-align:bottom}\n"
    "th:first-child,td:first-child{text-align:left;white-space:normal;min-width:7em;"
    "padding-left:0;overflow-wrap:anywhere}\n"
    ".why{text-align:left;white-space:normal;overflow-wrap:anywhere;"
    "color:var(--soft)}\n"
    "tr.best td{font-weight:600}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),"
    "1fr));"
    "gap:1.2rem}\n"
    "figure{margin:0;border:1px solid var(--rule);border-radius:10px;padding:.7rem;"
    "break-inside:avoid}\n"
    "figure svg{display:block;width:100%}figcaption{font-size:.82rem;padding:.2rem .5rem "
    "0}\n"
    ".samples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),"
    "1fr));"
    "gap:1rem}\n"
    ".sample{background:var(--card);border-radius:10px;padding:.8rem 1rem;"
    "break-inside:avoid}\n"
    ".sample h3{margin:0 0 .4rem;font-size:.95rem}.sample p{margin:0;font-size:.86rem;"
    "white-space:pre-wrap;overflow-wrap:anywhere}\n"
    "code,pre{font:.84rem/1.5 ui-monospace,monospace}\n"
    "pre{background:var(--card);border-radius:10px;padding:.8rem "
    "1rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    "@media screen and (max-width:760px){body{padding:1.2rem .9rem 3rem}"
    "th{display:none}td:empty{display:none}table,tbody{display:block}"
    "tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--rule)}"
    "tr:first-child{padding:0;border:0}"
    "td{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.12rem 0}"
    "td::before{content:attr(data-of);color:var(--soft);font-weight:400}"
    "td:first-child{font-weight:600}td:first-child::before,td.why::before{content:none}"
    "}\n"
    "@media print{body{max-width:none;padding:0;font-size:11pt}.plots{"
    "grid-template-columns:1fr 1fr}.wide{overflow:visible}table{font-size:7.5pt}"
    "th,td{padding:.25rem .3rem}}\n";

void document_open(FILE *f, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
          "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          f);
    chart_text(f, title);
    fputs("</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n", f);
    fputs(style, f);
    fputs("</style></head>\n<body>\n", f);
}

void document_close(FILE *f)
{
    fputs("</body></html>\n", f);
}

void document_cell(FILE *f, const char *label, const char *text)
{
    static const char joints[] = "+/(,";
    size_t            n;

    fputs("<td data-of=\"", f);
    chart_text(f, label);
    fputs("\">", f);
    for (const char *rest = text; *rest; rest += n) { // a long name breaks at its joints
        char part[1024];

        n = strcspn(rest, joints);
        n += rest[n] != 0;
        n = n < sizeof part ? n : sizeof part - 1;
        snprintf(part, n + 1, "%s", rest);
        chart_text(f, part);
        fputs(rest[n] ? "<wbr>" : "", f);
    }
    fputs("</td>", f);
}
