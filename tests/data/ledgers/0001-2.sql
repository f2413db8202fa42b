BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;
INSERT INTO "attach" VALUES('a-1',9,9,1795986724573421541,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',12,1795986724573427909,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',18,15,1795986724573431005,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','fallback','mapping_failed','mmap','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee',NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',20,20,1795986724573439790,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','mapped','proved',23,NULL,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',26,26,1795986724573458082,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unprovable',28,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-5',30,30,1795986724573464688,'l-1',0,1,'node','test','1',1000,'/models/a',NULL,'raw','cpu','fallback','not_resident','',NULL,'abababababababababababababababababababababababababababababababab','k1',NULL,NULL,NULL,NULL,'failed',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"content","fingerprint":"08e0e098249f9586ba3a994195db7fb2","digest":"abababababababababababababababababababababababababababababababab","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(12,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'93e2c2a0f138411cb78ac4109244adf1','daemon.started',1,1795986724573403996,1795986724575067293,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'073939C781AA750BD83E677F2727162D',X'626A5717B0032AE489888ABF26CDA58C8AD7EE2D95D39BE1F2ED233215A9252C',X'F66FE12D35E1C6AA75152F41702BBFEC0BE8466DA1DCBE2AF533850A82FEC6BD');
INSERT INTO "event" VALUES(2,'residency/r-1',1,'8c622802056342cb918d4aeae234ca59','load.started',1,1795986724573409733,1795986724575067293,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'92BC1C4DAFC3D1F040144582C53D463B',X'0C93BEEDFFD6D7C0FFBC1A7C996F6F0559B823FD3C225D616857579DA186E49B',X'5B4A3CD79E51431E1499708CEB49F061086B5AA76AFBC163632060A92261C8A3');
INSERT INTO "event" VALUES(3,'fingerprint/13bbdb5e7a3cf3eaa8f4920924b31ec0',1,'ef18513523294d28af11dce5dd8d06c7','fingerprint.recorded',1,1795986724573411646,1795986724575067293,0,'{"fingerprint":"13bbdb5e7a3cf3eaa8f4920924b31ec0","evidence":{"tier":"header","algorithm":"wcache/weights/1","digest":"1111111111111111111111111111111111111111111111111111111111111111","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'19FE8FD3E715A96CBF6BCDD0535CFC0C',X'1CF2D0972397A372B4CC991C0D132680A5EBB2515A30468E39B299DC085E87E6',X'8F4293A98FDC3E85ACB7F91E9B3FE076EC8C17AF007DA9B7A26B8FE09FDE32C7');
INSERT INTO "event" VALUES(4,'fingerprint/a947c05092eafbde8221d9a9694885b6',1,'1cff6bb401854740969bc3e3c47ccfbe','fingerprint.recorded',1,1795986724573413274,1795986724575067293,0,'{"fingerprint":"a947c05092eafbde8221d9a9694885b6","evidence":{"tier":"sampled","algorithm":"wcache/weights/1","digest":"2222222222222222222222222222222222222222222222222222222222222222","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":"s1","file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'A70DEB1836B0BF1546581C51C8BCCAD6',X'907380D0A3A6DCB214C2B76A88CA08C0996A89A0BEFE8FBE04E1D00E2704BE42',X'76943D5066B70A060013A9DE40D1A2BAFD10AE34B17EF882CB73E7B7120A6246');
INSERT INTO "event" VALUES(5,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'5ac5024913ae468da7b685ef98f67e3d','fingerprint.recorded',1,1795986724573414952,1795986724575067293,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'2991CB01AA01D4346FAD41CAA852C25F',X'D4D27D7397E4C3F533921A355059C98D6AEF0686D4BE543750387A585A8410C1',X'4A1A1A9AEA3B0B4FB4B8D57AFF7A05929BD49B4FDFBB17B73A3DA3175B37F949');
INSERT INTO "event" VALUES(6,'residency/r-1',2,'b07b87cd66ff43c183a0c11db5033241','load.completed',1,1795986724573416634,1795986724575067293,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["13bbdb5e7a3cf3eaa8f4920924b31ec0","a947c05092eafbde8221d9a9694885b6","1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'2DD6E30CAD73D883CCB509A5E685223F',X'564CB4BB8F5A8F1BD6D7E7959A4BD67DD17009252D5403BE9242008A4CA8565F',X'EA53C740145E3DF48B93EC83FC16F3BF40EF72CF8F06788CE601448129BEEE00');
INSERT INTO "event" VALUES(7,'trust/g-1',1,'81815b97af794fb691c47dd3563d617c','trust.granted',1,1795986724573418428,1795986724575067293,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'8450BBD6FDBFC93673993F9C9F55FA7B',X'9E3415074FC978CE32E98EA9F789D831A3F16DFF9918E4A8100B6F6BF092594E',X'860B5F8632F5456324B395D3E1F997574FAB4BA07E1D40F705AF3E5E51403A8B');
INSERT INTO "event" VALUES(8,'trust/g-1',2,'e38d1b3e09d744aa9ef8cf52ab589888','trust.revoked',1,1795986724573420025,1795986724575067293,0,'{"grant":"g-1","operator_uid":0,"reason":""}',X'969B670F567172A45C89F509492A8257',X'10E0C0A3CF5D1CC60528DE854F17667E764FC49A5D3B9DC2F72B2EFB13D8927C',X'9333B1AE5E5E6CD227CA15675E6292C49651AE2BB5989D9A5810519555BFA165');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'56831e1d11e64e92a2ddb5bdbed94814','attach.decided',1,1795986724573421541,1795986724575067293,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'3789F0115CD54D51D410B3CB8A4AF002',X'E06F9BD0324077EED5E919B38222D1BE1F2891A6853E548A00DF70B7F40171D1',X'05792616CEB90A25CFB1DD300A7A26D5F404D04EE2573AC605E426CFBB309E04');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'79065087d3de4dda8a8af90ab8bedd21','lease.granted',1,1795986724573423158,1795986724575067293,0,'{"attach":"a-1","residency":"r-1"}',X'5779AFB2ADF6E16011B93ECAC6B6C995',X'9945BFC1B526C21D5A6D7A6B9A5E952A4557B4A27A6B8D044FB47E79C6C348FA',X'0BA9BADC9580D0CAE4D6A01FA2BE0163A2671048E504D5922204B434F326F293');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'f0874ccf86604bd7ac6fdc7868e91b83','map.completed',1,1795986724573424675,1795986724575067293,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'E49938FF36D16B8E5E762533DD32E497',X'C96E5FD30EF78D6378DB651CE72896DDF09CB28948777A680D6EC17DC91AC36F',X'B013434E756F844E6CFA8BFC84B512B4C0FAF3E13E71DB77F3C75594D15AEDC2');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'d615908da97d4cfa92d471a2fdeded3f','verify.failed',1,1795986724573426274,1795986724575067293,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'B01E570CDEE3983103D0E3D8DE472A88',X'998396F7EB85F2105D22B8918CC63A34BFB9F0922DA0475712859D1F8C0FF77E',X'8F9C71103E27AE67AACD64DA38DC4B4B89943140EB461C09A20B0C8764060510');
INSERT INTO "event" VALUES(13,'attach/a-1',5,'d02cb5e89f754db3be8d983de2f55cc8','lease.ended',1,1795986724573427909,1795986724575067293,0,'{"attach":"a-1","how":"closed","checked":""}',X'15323E0BD1C5AB59B7CD15ED5D88AC01',X'EFB797663B260EB72F32FE9792ADE25EA99ECA06A096CCCB5E7F5B29195B215F',X'1A9FCFDD6BDFE079E074878704FBB911D3E78963348B9E0CC0D3D96A810484BF');
INSERT INTO "event" VALUES(14,'attach/a-1',6,'50f08a6dae4d4eb29b679c5eb362ab33','map.failed',1,1795986724573429461,1795986724575067293,1,'{"attach":"a-1","code":"mapping_failed","message":"mmap"}',X'A06DF1D457760C0A6B20D9971ACABF25',X'790E12815D73C40AAF2F0F08F00CB91CA4B26F6761D6D04F8F48560F9B80897A',X'BE194DC7F582DE2589A32C578C1B3292EE31B37FF3791ADE522823F39603E347');
INSERT INTO "event" VALUES(15,'attach/a-2',1,'a6a5a21b03ca49cc9a32aa7367f527d7','attach.decided',1,1795986724573431005,1795986724575067293,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'50A72ED1CE21F3EF626E16AF086C90FF',X'F9F7579C695D2AC43A6A6AE03F63321AD98BAFF9C19B4C10EFA3914E6BB39936',X'65558AFD2E104E2DF66FFC6E5A551AB966F01FB1591402789B667F640FEE5478');
INSERT INTO "event" VALUES(16,'attach/a-2',2,'c710e69b17cf4fe79659da3b8b6b7fc5','lease.granted',1,1795986724573432494,1795986724575067293,0,'{"attach":"a-2","residency":"r-1"}',X'9ABEC43BF54C57D4FC23CF9429528AC8',X'F23F8B808238C5248DA9A84CE55E7D4DFFDDF98CD10C722C9164C1D2F05A0AF2',X'3D26C677A8D24457578FED54FD0396A88EC52F7E88148E6E4B468CA9305F03FC');
INSERT INTO "event" VALUES(17,'attach/a-2',3,'8c8109c3b700480cab6973f1c28e7ffd','map.failed',1,1795986724573434251,1795986724575067293,0,'{"attach":"a-2","code":"mapping_failed","message":"mmap"}',X'C2F3E49D4A6C9F6146D8B93F1B350588',X'5EF5D5550A3CA5A5FD543A0D823B3C561C3966C108487CFE2433645AE687ED13',X'C84DBC62073388C5342C4BD7D1A102256D6391706E26BF3504FC4C17B2C89969');
INSERT INTO "event" VALUES(18,'attach/a-2',4,'f12a0719d05d43b58fc85b684c7a5e82','attach.redecided',1,1795986724573435853,1795986724575067293,0,'{"attach":"a-2","outcome":"fallback","reason":"mapping_failed","detail":"mmap"}',X'591E82DF7A3E6E7FCB915CF5FDF03BCA',X'3FA74963A41EDFFA2BE36AAED14746874C5447C922EC42D6589188A047ED24E1',X'46CC1D2D6281E24A4B6FBA4A6260DA796D7D42BE7540FA3CB2E32E65ACE99211');
INSERT INTO "event" VALUES(19,'attach/a-2',5,'ba497f0438a6487285931cd2df8ad401','fallback.completed',1,1795986724573437615,1795986724575067293,0,'{"attach":"a-2","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'F997E63D986BDFCDC17C0D3ADDBB11BB',X'9F3139BD0A615D21E85D6009CB2C98B512663B1B324F95DDCE02679F36F17213',X'A6098C219AE7ED1D112BDCD4553A3978BFBE7375A6EE6C545E8DFA3169D066DB');
INSERT INTO "event" VALUES(20,'attach/a-3',1,'d08a80708e6840d79eb7c05d4dd09fe4','attach.decided',1,1795986724573439790,1795986724575067293,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'D5E27906544F2AA0E5861CF16ADAB878',X'56203B0E1A2FC59A86365DA8CEA6F6094EFE61CF4A438EF71B61C0A6745B29C5',X'83F1411457B84F9B57A83158A7B957D68CC782177E4AE48FE5A7CE1DDADCA6C0');
INSERT INTO "event" VALUES(21,'attach/a-3',2,'54e2301097ae424183410597774c25c0','lease.granted',1,1795986724573441516,1795986724575067293,0,'{"attach":"a-3","residency":"r-1"}',X'186920B4E307B00A1586D974FF5049E7',X'B04B2567175F4FC24892BAE2A0D30C75A938BC7759B6A49B49F7198BBBA3406A',X'C96F80121EF22200CA3846728B346F56CB15470558FD5AB7CC31AC0CAFACDE39');
INSERT INTO "event" VALUES(22,'attach/a-3',3,'94ed511b32574be6bacbd03131f2a454','map.completed',1,1795986724573443549,1795986724575067293,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'BCF218EA4A9DDEE062023F7A77F863ED',X'01C986F93242D316BB71CDF40504EB2A222F0CADE9B7B26D2104BDEBE350F62F',X'168A3EF72246823B6DD3072A1F34361D262537F4D5073032A7878400CA11B505');
INSERT INTO "event" VALUES(23,'attach/a-3',4,'8c0415d056bc4e419c41a2d6b2712124','verify.passed',1,1795986724573451291,1795986724575067293,0,'{"subject":"hit","attach":"a-3","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'4951C0BD460C203FE08FEE0C01D57D73',X'7747DE0395CE0A95654749D2376683BDEAB2AF867A7312D987CA2A0DF0E2CCD6',X'A96F3158C5E4EFAF5B5786655945537FF9BA8109E1955EAA68E2DC4DA476BE4D');
INSERT INTO "event" VALUES(24,'attach/a-3',5,'7f5c3b43ef1e48c38293bd547f15c401','map.paused',1,1795986724573454705,1795986724575067293,0,'{"attach":"a-3","bytes":10}',X'4E23480EBC31666F91BE5A83DBB8F9D4',X'03B3452B3D5337099CFF05C1BE6DEFA682B18A35159C6719F347033C49C64190',X'711D3F28543320C1DA21774B1FB49401DB83FB870A7F0A40E8D7825B47A7267D');
INSERT INTO "event" VALUES(25,'attach/a-3',6,'e39ed31c6f8c49cfab12128a687770f6','map.resumed',1,1795986724573456310,1795986724575067293,0,'{"attach":"a-3","bytes":10,"ms":1.0}',X'1F4D7A198F1890CF3486535DDDE2EC4D',X'3089D24B2887059039DA4678C9B31890C06A577C5DE8B2E60D766FC283C92F13',X'6121DD47C0FE5BA142872CAEA6F4A2BADE91296C741FA11BCA2F35DDD4571EFA');
INSERT INTO "event" VALUES(26,'attach/a-4',1,'4c43e697d95345d3b5645f78678896d3','attach.decided',1,1795986724573458082,1795986724575067293,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'BF40BE436C345BA7678DC5A727FDC0C0',X'687A4AD9A0EBE547B4FF11A650A439409150E020FA6B4CAB423973702B050A97',X'BDCDDB0EB42DDBF2E389A8A501F886FAD27DBEAEFB0EA23792D42A5ED57E0BE4');
INSERT INTO "event" VALUES(27,'attach/a-4',2,'edea5c085d144cbba5827f6a3dac416a','lease.granted',1,1795986724573459841,1795986724575067293,0,'{"attach":"a-4","residency":"r-1"}',X'619C0E905A8A87CA0592DEB2139A86C7',X'43539E40A834C4DD43D1F233EF2B39434F224E985139B176A4E6F5F154B9322C',X'DCD062E96A054EF8286E47C3E882B8A341B39FE53144D937E2E56CE224E2FCAB');
INSERT INTO "event" VALUES(28,'attach/a-4',3,'7aa22b52591e4358be788ee306c32d9d','verify.inconclusive',1,1795986724573461522,1795986724575067293,0,'{"subject":"hit","attach":"a-4","residency":"r-1","why":"the files changed"}',X'27A79425EF6841C1686637E7B461DDB5',X'674B3424DDDDC06C250CEC9D6C198519C708F734600EB669A664212CA1A8A946',X'95C7BCB2C53E3512292A73554C76B619C0F289175BE7923D95ADB44BD86B8A54');
INSERT INTO "event" VALUES(29,'residency/r-2',1,'d1034bafaab54e719dd4e62a97a16f27','load.failed',1,1795986724573463068,1795986724575067293,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"code":"no_room","message":"no room","detail":""}',X'90B29D66B8B97A280FE6C90CA95D81A3',X'6B1F405DEE031EC705BABC76EA0FEE182DB5899C0FB949317051B366B693FE67',X'5C9842AD4EE0FCEA7915170E025DFEBB770DBE968FA827A93D441A4776BF3B04');
INSERT INTO "event" VALUES(30,'attach/a-5',1,'54fcf52f2e26470aaba8c7f7f7ae926c','attach.decided',1,1795986724573464688,1795986724575067293,0,'{"attach":"a-5","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":0},"peer":{"uid":1000,"pid":42},"ranks":{"rank":0,"world":1,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/a","root":"/models/a","repo":null,"commit":null,"key":"k1","table_digest":"t1","digest":"abababababababababababababababababababababababababababababababab"},"served":null,"residency":null,"kind":"raw","device":"cpu","outcome":"fallback","reason":"not_resident","detail":"","tier":null,"mode":null,"evidence":[{"tier":"content","fingerprint":"08e0e098249f9586ba3a994195db7fb2","digest":"abababababababababababababababababababababababababababababababab","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'DAAE8967746F7F1E557F1A4E28987FFB',X'9550B4D387301D0E156AB2E2D46B245F53A5CBC2ED554668D481027FCA6E7B94',X'B7B18B0AA5BC9AFE65942A2B87A3972DD75D3B0EE9E365F7219A30C2E6993055');
INSERT INTO "event" VALUES(31,'attach/a-5',2,'3d5ecf7f0894406b9e7e2831b122ec77','fallback.failed',1,1795986724573466291,1795986724575067293,0,'{"attach":"a-5","code":"c","message":"m","idle_bytes":0}',X'A786FCB59181A7B2F2A0B9FB34AC2AFA',X'BC75DD13390B26C7370DFAE165895BC67885701FA322EEA3988EDE91EABCB95F',X'B631A985AEB98EB5157AAD6848857A7F7F756AFDA9A80B1216A70A44512A63CC');
INSERT INTO "event" VALUES(32,'trust/g-2',1,'d94058c37aab49f099b3aed3a6f88aea','trust.granted',1,1795986724573467798,1795986724575067293,0,'{"grant":{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'1800D4BE5EE4B7AF6916D9B543E949BC',X'69E5640F8337A61439AA7DED6E0925AF61D6BF21FC25F4E0AFE896D73E5433A9',X'18CC998E628DE837C4A1E6FB68C90354CD7C3FEE02B17D70094F21017DA36ED0');
INSERT INTO "event" VALUES(33,'residency/r-1',3,'fb95fb015d1b41deaaa8a41d897838c0','release.refused',1,1795986724573469363,1795986724575067293,0,'{"residency":"r-1","uid":0,"why":"leased","leases":["a-3"]}',X'D57E54C3E6AEA9BD0794D54762DB291F',X'C90677EDD04B5815236719C4818FC1F4814C5B34EE0638C87143A5734FE5714A',X'C1D89B3A1D65ED7A69F12A95668DB91BF1E08C3699FA8EB94D5CC8CD2F576C69');
INSERT INTO "event" VALUES(34,'residency/r-1',4,'b3cfe9dab0174da3a4c3e1d262e5d8d7','residency.readopted',1,1795986724573471041,1795986724575067293,0,'{"residency":"r-1","instance":"d-1"}',X'F4BE42CD1C985D114D5736C69F0A26F7',X'CF9228A35AF49BD58DDF846E6B81D7AE23317F1F8079BCB99EAA5DD8F0D8710D',X'0B379627634CDDF4AE1F4072E7969E763663B7D9B4058B4C90C82573E1A81B69');
INSERT INTO "event" VALUES(35,'residency/r-1',5,'3ace4b1aca6b4a24ac02adb6f898a892','mutation.detected',1,1795986724573472588,1795986724575067293,0,'{"residency":"r-1","tensors":["w"],"why":""}',X'BD71DF716CED48C301747BD37339401E',X'3C74AC0238738E8D43C039D532EC8F8B42236B3CD685FB9E56B86CE1B8BDAF86',X'F6CCC3267AD5DB6B0671C2BC57C7769F4C1A5601991254A10E156A69A960C2B6');
INSERT INTO "event" VALUES(36,'residency/r-1',6,'dd19937d2b724e72a7f617197d5e4872','release.requested',1,1795986724573474131,1795986724575067293,0,'{"residency":"r-1","uid":0,"why":"asked","force":false,"leases":[],"when_free":false}',X'A414B2659237111AA7C2979119ABC152',X'D328B5AA55C9A5B1573ABDB8D6D3DE660FE1C7F94B5CF830A05193E11B578659',X'2A1F7D291B62EE14CB8E31E9EAED1F0DEFFB0A902D5B418777B9310C9C3825A3');
INSERT INTO "event" VALUES(37,'residency/r-1',7,'c6b63aafb4c14b7c82cd70768a6a9969','release.completed',1,1795986724573475675,1795986724575067293,0,'{"residency":"r-1","bytes":1000,"checked":""}',X'5AE9343684647B920F5A199DE479BE9E',X'EC73382D5D75C9DCB8E172134CAB1A09393F694F7F5AD5C5258DDF5B5A66E90E',X'675976CCA20E11F1BC6DEF48002D433FE17AFDCAA6D31D6EE6E2C35D456F8B68');
INSERT INTO "event" VALUES(38,'residency/r-3',1,'74b23b2c2f45440c861cbbdf8cb59ce2','load.started',1,1795986724573477201,1795986724575067293,0,'{"residency":"r-3","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'A5140E69A653CD8167D1D38929B72E92',X'82A3F5F04398C678CB8DD6527FD86FE2F89924EC2038386B823ED7C64D0FFCEF',X'B5EB286AE82EC2C4D572EC837C12F9B088C26F19641A9E1EC7E7F9E3623480BF');
INSERT INTO "event" VALUES(39,'residency/r-3',2,'33a7bf84520f43dfb9bc47889e0c3e4b','residency.lost',1,1795986724573478748,1795986724575067293,0,'{"residency":"r-3","why":"gone"}',X'EFF003D42ED61D3C62E278468C0AB795',X'FFE34E3FC598AF4197A80BB0F555B60BF474A1550C3647536B96E035F8B6DBC8',X'016CBFAA69E4DE716396BCB25CBE2F01D4BF457654B28A09690EDE9A919543D5');
INSERT INTO "event" VALUES(40,'ledger',1,'cc5ad937039049448ee49bfe601ccdb0','peer.refused',1,1795986724573480333,1795986724575067293,0,'{"peer":{"uid":1000,"pid":5},"why":"another user"}',X'C7BE940818E64C7B4C334996DB0636F0',X'E56D9EB14BEA084216C48CE5369C4C31B996DBD30D02FE94735CED2AF4313CAD',X'390CC698BB06DF5054BD57ACDBF27EDFF4A66A62C8A3DA74A13F917A983293B2');
INSERT INTO "event" VALUES(41,'ledger',2,'5aaf9c781e634dd3a876f98684aab07d','ledger.gap',1,1795986724573481928,1795986724575067293,0,'{"from_ns":1,"to_ns":2,"merged":1,"lost":0,"why":"full"}',X'1E0723E3D687B2BE0295028A360E4207',X'16D42B0CBD0931C8BC09183A2ADB5E76A6DCDCB7BC084ED75DE3A74FF21D2A19',X'C032814F5BCA9949231504FA62D81D8915866D3EB0CC80D6418925828F0FF647');
INSERT INTO "event" VALUES(42,'daemon/d-1',2,'bfaaa4ae8476494798fbedab81541533','daemon.stopped',1,1795986724573483720,1795986724575067293,0,'{"instance":"d-1","by":"signal","left":[]}',X'C7F0C837198B61634A8EE5D8B8AF8F77',X'EBBC9A2CA453C401CFDE0E93C34EEA4E07808CD7E6EBE295AD936788685C1673',X'6BF8040DFCD568BF1E055AB1A38259036B6E58607A79A072CE7306E975D98B12');
INSERT INTO "event" VALUES(43,'daemon/d-2',1,'f4da48bd0e894e8ba78c40e3d756fe42','daemon.started',1,1795986724573485413,1795986724575067293,0,'{"instance":"d-2","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'C9DEEC6CE3FF46011D05899D848E99B9',X'53D8358E5638CE5AF6B7B6848C2377A9F20E1F1BD01C9A1913106573EB261516',X'4C53F250CB7C0C4CCB039532CBCE194C6CA9216A0C1CA3E18608BFF2ECB9EFFC');
INSERT INTO "event" VALUES(44,'daemon/d-2',2,'2b23ff4434334fbfbed67ca309925b46','daemon.lost',1,1795986724573487002,1795986724575067293,0,'{"instance":"d-2","noticed_by":"d-3"}',X'582959DEAB8E04394BDF56BF31691840',X'9463D371BE464D0509E5D20B70F2D7747938EDE87CF155C0B9BE36298584BEA8',X'EDE74D669735A54E44841AF653B1F5344F3D18DAF3B09CBB211B6ED47AD906D5');
INSERT INTO "event" VALUES(45,'ledger',3,'e0bb0d0f96ec4643afbe7eebdfddb499','checkpoint.signed',1,1795986724584336682,1795986724584816772,0,'{"origin":"2474aa4bdac9fb42c02733b57b1eb23a","size":44,"root":"e48be63808355e9cfe766b85e7fd0078fcdb591497a43f3accd8cb99740ab8a6","key":""}',X'463E7401F303D5AEE3B1CDC2CEB3804F',X'643605C967D794C7FCB5CE31B410B694B2AA5E9EF72F2DC76E4B0B521D3D36E3',X'03963A0BD4EDACDD2F3D6B3B8FE127F05C14E8C96E88AC7A12224663A3C25C1F');
INSERT INTO "event" VALUES(46,'ledger',4,'3d5a6a692eeb404d85ade0c52da1e402','segment.closed',1,1795986724588152069,1795986724588203697,0,'{"size":45,"root":"16cf80e57c92140e470987500f4d06acb3d521bd4e2177c50b25681502260718","uid":0}',X'158CAC36BBFF66999DC9C8FA2987D606',X'DE3A1BCA7B2D8AD5246A901D9E8D6DF0A9B7731C60C906C4191B092BDD5A419A',X'6C4FBD646AAF55FA6BA1C82D73135AAA0238B9B737629AEED2A483573BE3BDC5');
INSERT INTO "event" VALUES(47,'ledger',5,'d922608463ba4b7d87592213d9b0ddd0','segment.opened',1,1795986724588466185,1795986724588505372,0,'{"state":{"attach/a-3":[6,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"proved\"}"],"attach/a-4":[3,"{\"state\":\"granted\",\"outcome\":\"hit\",\"arrived\":false,\"proof\":\"unprovable\"}"],"trust/g-2":[1,"active"]},"size":46,"root":"4e8a50bdd9b42cdf34a12f5677eeea49cc160372a970f87a5e56cade9cb72519","frontier":["80f7c806609dd66e6f995289c86f55536b2a196da5d011902b3985d54fbcaf59","55c8f2e47862e1bbe6646c41f0593eaed1ff9b0f26253dae10e754f951110f9f","4b16b84b09fa313b0a3884b85bfa4edcfd9c57c8940c46be3b4536ff151ea299","3876b15e16169a06acef33d06c79cb1a21efb9209ced61bdb097ab49b2f96218"],"chain":"6c4fbd646aaf55fa6ba1c82d73135aaa0238b9b737629aeed2a483573be3bdc5","origin":"2474aa4bdac9fb42c02733b57b1eb23a"}',X'3078E48ADC0A387E7A1AE99397D40D2F',X'D97659776B831B7B0844F21062130CAD94E5776B92A7A1F76627E8A776631C0D',X'84D199F724BFB9829FAD5A9B732E7BC709BCA3D9327B3620C5E1A39700B41792');
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;
INSERT INTO "fingerprint" VALUES('13bbdb5e7a3cf3eaa8f4920924b31ec0',3,'header','1111111111111111111111111111111111111111111111111111111111111111',NULL,'/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795986724575067293,1,'{"tier":"header","algorithm":"wcache/weights/1","digest":"1111111111111111111111111111111111111111111111111111111111111111","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('a947c05092eafbde8221d9a9694885b6',4,'sampled','2222222222222222222222222222222222222222222222222222222222222222',NULL,'/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795986724575067293,1,'{"tier":"sampled","algorithm":"wcache/weights/1","digest":"2222222222222222222222222222222222222222222222222222222222222222","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":"s1","file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',5,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795986724575067293,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('d-1',1,'stopped',1795986724573403996,1795986724573483720,10,0,'1','boot','/run/wcache');
INSERT INTO "instance" VALUES('d-2',43,'lost',1795986724573485413,1795986724573487002,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795986724571557275');
INSERT INTO "meta" VALUES('origin','2474aa4bdac9fb42c02733b57b1eb23a');
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
INSERT INTO "policy" VALUES('ecbf1c02a252e835d08fab320a8a85fd','{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"}');
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;
INSERT INTO "residency" VALUES('r-1',6,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795986724573416634,1795986724573475675,'d-1','{"header":"1111111111111111111111111111111111111111111111111111111111111111","sampled:s1":"2222222222222222222222222222222222222222222222222222222222222222"}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',29,'/models/base','/models/base','org/base','c0ffee',NULL,NULL,NULL,NULL,NULL,NULL,'failed',NULL,1795986724573463068,NULL,'{}','["/models/base","org/base"]','[]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null}');
INSERT INTO "residency" VALUES('r-3',38,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,NULL,NULL,'lost',NULL,1795986724573478748,'d-1','{}','["/models/base","org/base"]','[]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',5,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',6,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',6,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"fell_back","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-3',6,'{"state":"mapped","outcome":"hit","arrived":true,"proof":"proved"}');
INSERT INTO "stream" VALUES('attach/a-4',3,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unprovable"}');
INSERT INTO "stream" VALUES('attach/a-5',2,'{"state":"failed","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('daemon/d-1',2,'');
INSERT INTO "stream" VALUES('daemon/d-2',2,'');
INSERT INTO "stream" VALUES('fingerprint/13bbdb5e7a3cf3eaa8f4920924b31ec0',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('fingerprint/a947c05092eafbde8221d9a9694885b6',1,'');
INSERT INTO "stream" VALUES('ledger',5,'');
INSERT INTO "stream" VALUES('residency/r-1',7,'released');
INSERT INTO "stream" VALUES('residency/r-2',1,'failed');
INSERT INTO "stream" VALUES('residency/r-3',2,'lost');
INSERT INTO "stream" VALUES('trust/g-1',2,'revoked');
INSERT INTO "stream" VALUES('trust/g-2',1,'active');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',7,'checkpoint','revoked','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',8);
INSERT INTO "trust" VALUES('g-2',32,'checkpoint','active','{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',NULL);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE UNIQUE INDEX attach_seq ON attach (seq);
CREATE INDEX attach_launch ON attach (launch);
CREATE INDEX attach_decided_ns ON attach (decided_ns);
CREATE INDEX attach_residency ON attach (residency);
CREATE INDEX residency_state ON residency (state);
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);
COMMIT;
