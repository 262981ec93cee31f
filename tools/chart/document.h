/* A report as one self-contained HTML file, without scripts: light and dark, on paper, on
 * a phone, where a table's rows become blocks and their cells bear the column's name.
 *
 *     document_open(f, title);
 *     <h1>, <p class="sub">, <div class="answer">, <div class="wide"><table>,
 *     <div class="plots"> of <figure>, <div class="samples"> of <div class="sample">
 *     document_close(f);
 */
#ifndef WEFT_TOOLS_DOCUMENT_H
#define WEFT_TOOLS_DOCUMENT_H
#include <stdio.h>

void document_open(FILE *f, const char *title);
void document_close(FILE *f);

// A cell of a table; label: what stands above its column.
void document_cell(FILE *f, const char *label, const char *text);
#endif
