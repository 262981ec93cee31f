/* The verbs of weft that live in infer/. argv[0] is the verb's name. */
#ifndef WEFT_INFER_VERBS_H
#define WEFT_INFER_VERBS_H

int infer_main(int argc, char **argv);      // weft infer RUN -p PROMPT
int score_main(int argc, char **argv);      // weft score RUN FILE|DATASET

#endif
