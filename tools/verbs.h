/* The verbs of weft that live in tools/; main.c has the table of all. argv[0] is
 * the verb's name. */
#ifndef WEFT_VERBS_H
#define WEFT_VERBS_H

int data_main(int argc, char **argv);       // weft data build | stories
int stories_main(int argc, char **argv);    // weft data stories, from data_main
int info_main(int argc, char **argv);       // weft info PATH | --arch [NAME]
int export_main(int argc, char **argv);     // weft export RUN --to hf|gguf|llama2c
int import_main(int argc, char **argv);     // weft import PATH --out RUN
int verify_main(int argc, char **argv);     // weft verify PATH
int plot_main(int argc, char **argv);       // weft plot RUN...
int compare_main(int argc, char **argv);    // weft compare INPUT --arch A,B,...
int bench_main(int argc, char **argv);      // weft bench
int lab_main(int argc, char **argv);        // weft lab [NAME | all]

/* Choose and bind OpenMP's threads; may re-execute the program with these
 * arguments, once. */
void threads_start(int argc, char **argv);

#endif
